"""The figures of the KV cache, all in tokens (one slot holds one token) unless named otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheStats:
    """free + private + cached = capacity, and leased + evictable = cached.

    `private` is what running requests hold outside the tree; `leased` what they hold in it, counted once
    however many share it. `query_tokens`, `hit_tokens` and `evicted_tokens` are totals since the start.
    """

    capacity: int
    page_size: int
    free: int
    cached: int
    private: int
    leased: int
    evictable: int
    nodes: int
    namespaces: int
    leases: int
    query_tokens: int
    hit_tokens: int
    evicted_tokens: int

    @property
    def hit_ratio(self) -> float:
        """The part of all acquired tokens that was cached; 0 before the first."""
        return self.hit_tokens / self.query_tokens if self.query_tokens else 0.0
