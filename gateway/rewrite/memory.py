"""What rules remember between the turns of a session: bounded in bytes, what was used longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

ENTRY_BYTES = 300
"""What an entry costs besides what it holds, roughly."""


class Sized(Protocol):
    @property
    def size(self) -> int: ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Sized)


class Memory(Generic[K, V]):
    def __init__(self, limit_bytes: int) -> None:
        self.used_bytes = 0
        self._limit = limit_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def recall(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def remember(self, key: K, value: V) -> None:
        self.used_bytes -= self._entries.pop(key, (value, 0))[1]
        cost = value.size + ENTRY_BYTES
        if cost > self._limit:
            return
        self._entries[key] = (value, cost)
        self.used_bytes += cost
        while self.used_bytes > self._limit:
            self.used_bytes -= self._entries.popitem(last=False)[1][1]
