"""Limits by the minute: requests when they come, tokens as far as they can be told then, and put right at the end.

The count is in Redis, so that several gateways hold one limit together; while Redis is away each one counts alone.
Both count the same way: a window that slides over two fixed ones.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

WINDOW_MS = 60_000
MAX_COUNTERS = 65_536
SCRIPT = files("gateway.guard").joinpath("window.lua").read_bytes()


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    used: int
    """What the window held before."""
    wait_ms: int
    """If not allowed, until there is room."""


@dataclass(frozen=True, slots=True)
class Window:
    """A fixed window's count and that of the one before."""

    start: int
    current: float
    before: float

    def take(self, now: int, limit: int, amount: float, force: bool) -> tuple[Verdict, Window]:
        """Add `amount`, unless that exceeds the limit; the first of a window is always let in. As the Lua script."""
        start = now - now % WINDOW_MS
        current, before = self.current, self.before
        if self.start < start:
            before = current if self.start == start - WINDOW_MS else 0.0
            current = 0.0
        used = current + before * (1 - (now - start) / WINDOW_MS)
        if not force and used + amount > limit and used > 0:
            wait = float(WINDOW_MS - (now - start))
            if before > 0 and current + amount <= limit:
                wait = math.ceil((used + amount - limit) / before * WINDOW_MS)
            return Verdict(False, math.ceil(used), int(wait)), Window(start, current, before)
        return Verdict(True, math.ceil(used), 0), Window(start, current + amount, before)


class LocalWindows:
    """Counters of this gateway alone; those used longest ago are forgotten."""

    def __init__(self, limit: int = MAX_COUNTERS) -> None:
        self._limit = limit
        self._windows: OrderedDict[str, Window] = OrderedDict()

    def take(self, key: str, now_ms: int, limit: int, amount: int, force: bool = False) -> Verdict:
        verdict, window = self._windows.get(key, Window(0, 0.0, 0.0)).take(now_ms, limit, amount, force)
        self._windows[key] = window
        self._windows.move_to_end(key)
        if len(self._windows) > self._limit:
            self._windows.popitem(last=False)
        return verdict


class SharedWindows(Protocol):
    async def take(self, key: str, now_ms: int, limit: int, amount: int, force: bool) -> Verdict | None:
        """None while the shared store is away."""
        ...


class Limiter:
    """Asks the shared counters first."""

    def __init__(self, shared: SharedWindows | None) -> None:
        self._shared = shared
        self._local = LocalWindows()

    async def take(self, key: str, now_ms: int, limit: int, amount: int, *, force: bool = False) -> Verdict:
        if self._shared is not None:
            verdict = await self._shared.take(key, now_ms, limit, amount, force)
            if verdict is not None:
                return verdict
        return self._local.take(key, now_ms, limit, amount, force)


def as_verdict(told: Sequence[int]) -> Verdict:
    """What the Lua script returns."""
    if not isinstance(told, list):
        raise ValueError("the store gave no verdict")
    allowed, used, wait_ms = (int(value) for value in told)
    return Verdict(allowed == 1, used, wait_ms)
