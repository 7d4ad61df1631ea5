"""The local mirror: a bounded LRU of what this gateway wrote, for when the shared store is away."""

from __future__ import annotations

from collections import OrderedDict

from gateway.affinity.base import Binding


class LocalBindings:
    """Same rule as the script: a binding is replaced by one with the same or a later use only."""

    def __init__(self, capacity: int, ttl_ms: int) -> None:
        self._capacity = capacity
        self._ttl_ms = ttl_ms
        self._entries: OrderedDict[str, Binding] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now_ms: int) -> Binding | None:
        binding = self._entries.get(key)
        if binding is None:
            return None
        if binding.used_ms + self._ttl_ms < now_ms:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return binding

    def put(self, key: str, binding: Binding) -> None:
        old = self._entries.get(key)
        if old is not None and old.used_ms > binding.used_ms:
            return
        self._entries[key] = binding
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
