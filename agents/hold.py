"""Tells the server how long a tool will keep a conversation waiting, so that its prefix outlives the gap.

The time is what nearly all earlier calls of that tool took. A gateway learns this for itself from the outside; the
agent knows it the moment a call starts. Servers that offer no retention are asked once.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from statistics import quantiles
from typing import Protocol

import anyio

from agents.cache_api import CacheApi

LEAST_S = 2.0
"""A shorter gap needs no hint."""
PATIENCE_S = 0.25
"""For the server to take a hint; a tool waits no longer for it."""
PART, ROOM, REMEMBERED = 9, 1.5, 20
"""Tenths of the known calls that were as short, room beyond them, and how many calls are remembered."""


class Hold(Protocol):
    def during(self, session: str, tool: str) -> AbstractAsyncContextManager[None]:
        """Around a call of `tool`."""
        ...

    async def release(self, session: str) -> None:
        """The session rests: nothing needs to be held for it."""
        ...


class NoHold:
    @asynccontextmanager
    async def during(self, session: str, tool: str) -> AsyncIterator[None]:
        yield

    async def release(self, session: str) -> None: ...


class CacheHold:
    """One for a run with all its branches."""

    def __init__(self, api: CacheApi) -> None:
        self._api = api
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._held: set[str] = set()

    @asynccontextmanager
    async def during(self, session: str, tool: str) -> AsyncIterator[None]:
        expected = self.expected(tool)
        if expected >= LEAST_S:
            self._held.add(session)
            with anyio.move_on_after(PATIENCE_S):
                await self._api.retain(session, expected)
        began = time.monotonic()
        yield
        self.took(tool, time.monotonic() - began)

    async def release(self, session: str) -> None:
        if session in self._held:
            self._held.discard(session)
            with anyio.move_on_after(PATIENCE_S):
                await self._api.release(session)

    def took(self, tool: str, seconds: float) -> None:
        self._seconds[tool].append(seconds)

    def expected(self, tool: str) -> float:
        """Seconds that a call of `tool` may take; 0 while none is known."""
        known = self._seconds[tool]
        if not known:
            return 0.0
        likely = quantiles(known, n=10)[PART - 1] if len(known) > 1 else known[0]
        return round(likely * ROOM, 1)
