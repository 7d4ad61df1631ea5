"""Bindings as the proxy uses them: find within a budget, bind without waiting, and never fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from gateway.affinity.base import Binding, Found, Match, decode_binding
from gateway.affinity.keys import LookupKey
from gateway.affinity.link import LinkState, StoreLink
from gateway.affinity.local import LocalBindings


class BindingsMode(StrEnum):
    SHARED = "shared"
    """In Redis: every gateway over it agrees."""
    FALLBACK = "fallback"
    """Redis is configured but away: this gateway's own bindings until it is back."""
    LOCAL = "local"
    """No Redis configured."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Bindings:
    def __init__(
        self,
        link: StoreLink | None,
        local: LocalBindings,
        *,
        ttl_s: float,
        budget_s: float,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._link = link
        self._local = local
        self._ttl_ms = int(ttl_s * 1000)
        self._budget_s = budget_s
        self.clock_ms = clock_ms
        self._began_ms = clock_ms()
        self._others = False
        """Other gateways have written since."""

    @property
    def mode(self) -> BindingsMode:
        if self._link is None:
            return BindingsMode.LOCAL
        return BindingsMode.SHARED if self._link.state is LinkState.UP else BindingsMode.FALLBACK

    @property
    def apart(self) -> bool:
        """Other gateways are at work, and none knows now what the others bind."""
        return self._others and self.mode is BindingsMode.FALLBACK

    def own(self, key: str) -> Binding | None:
        """What this gateway itself remembers, where others could say more if they knew more."""
        return self._local.get(key, self.clock_ms()) if self.mode is BindingsMode.SHARED else None

    def recall(self, wanted: Sequence[LookupKey]) -> Found:
        """The local ones for `wanted`, in its order: for whoever knows that no other can be newer."""
        now_ms = self.clock_ms()
        own = [(level, self._local.get(key, now_ms)) for key, level in wanted]
        return Found([Match(level, binding) for level, binding in own if binding is not None], shared=True)

    async def find(self, wanted: Sequence[LookupKey]) -> Found:
        """All known bindings for `wanted`, in its order. The newer of the shared and the local one counts."""
        raws = await self._read_shared([item.key for item in wanted])
        now_ms = self.clock_ms()
        matches = []
        for item, raw in zip(wanted, raws or [None] * len(wanted), strict=True):
            shared, own = decode_binding(raw), self._local.get(item.key, now_ms)
            self._note_others(shared, own)
            binding = _newer(shared, own)
            if binding is not None:
                matches.append(Match(item.level, binding))
        return Found(matches, shared=raws is not None)

    def bind(self, bindings: Mapping[str, Binding]) -> asyncio.Task[None] | None:
        """Write to the local mirror at once and to Redis in the background; that write's task, if any."""
        for key, binding in bindings.items():
            self._local.put(key, binding)
        if self._link is None or not bindings:
            return None
        values = {key: binding.encode() for key, binding in bindings.items()}
        used_ms = max(binding.used_ms for binding in bindings.values())
        return self._link.tell(lambda store: store.write(values, used_ms, self._ttl_ms))

    async def settle(self, write: asyncio.Task[None] | None) -> None:
        """Wait for a write, for as long as a look-up may take and no longer."""
        if write is not None:
            await asyncio.wait({write}, timeout=self._budget_s)

    def _note_others(self, shared: Binding | None, own: Binding | None) -> None:
        """One's own writes are never newer in the store than here."""
        if shared is not None and shared.used_ms > max(self._began_ms, own.used_ms if own else 0):
            self._others = True

    async def _read_shared(self, keys: Sequence[str]) -> Sequence[bytes | None] | None:
        if self._link is None or not keys:
            return None
        return await self._link.ask(lambda store: store.read(keys), self._budget_s)


def _newer(one: Binding | None, other: Binding | None) -> Binding | None:
    if one is None or other is None:
        return one or other
    return other if other.used_ms > one.used_ms else one
