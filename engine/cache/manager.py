"""The KV cache as the scheduler sees it: leases, retention and figures over one pool and one tree.

It owns the rule by which slots move between the three places they can be in:

    free (pool)  ->  private (a lease)  ->  cached (tree)  ->  free
                                        ->  free

so that free + private + cached = capacity after every call. With `debug` each call recomputes all counters.
Tensors are elsewhere: this package knows token ids and slot numbers only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from engine.cache.check import check_cache
from engine.cache.dump import dump
from engine.cache.eviction import retained_last
from engine.cache.extents import Extent, cut, total
from engine.cache.lease import Lease
from engine.cache.node import Node
from engine.cache.pool import Pool
from engine.cache.stats import CacheStats
from engine.cache.tree import RadixTree

# Room ahead is given only while this part of the memory (1/n) would stay available to others.
AHEAD_RESERVE = 8
# Eviction keeps this part of the memory (1/n) free, so that tokens which are decoded find long runs.
FREE_FLOOR = 128


class KVCache:
    """All KV memory of one engine: `capacity` slots in pages of `page_size`. One thread owns it."""

    def __init__(
        self,
        capacity: int,
        page_size: int = 1,
        clock: Callable[[], float] = time.monotonic,
        debug: bool = False,
    ) -> None:
        self.capacity = capacity
        self.page_size = page_size
        self.pool = Pool(capacity, page_size)
        self.radix = RadixTree(page_size, retained_last, clock)
        self.leases: dict[Lease, None] = {}
        self.private = 0
        self._clock = clock
        self._debug = debug
        self._query_tokens = 0
        self._hit_tokens = 0
        self._evicted_tokens = 0

    @property
    def available(self) -> int:
        """Slots that a lease could have: what is free, and what no lease holds."""
        return self.pool.free_slots + self.radix.evictable

    def peek(self, namespace: Hashable, ids: Sequence[int]) -> int:
        """How many tokens `acquire` would find, for the order of admission. Changes nothing."""
        return self.radix.peek(namespace, ids, limit=max(0, len(ids) - 1))

    def acquire(self, namespace: Hashable, ids: Sequence[int]) -> Lease:
        """A lease on the longest cached prefix of `ids` but the last: at least one token is always computed.

        It takes no memory; `Lease.grow` does. A request that must not read the cache acquires with no ids.
        """
        match = self.radix.match(namespace, ids, limit=max(0, len(ids) - 1))
        return self.hold(namespace, match.node, asked=len(ids))

    def retain(self, namespace: Hashable, ids: Sequence[int], seconds: float) -> int:
        """For `seconds` the cached part of `ids` is evicted after everything that isn't retained.

        A bias, never a lock: a running request can always have the memory. Returns the tokens retained.
        """
        tokens = self.radix.retain(namespace, ids, self._clock() + seconds)
        self.verify()
        return tokens

    def release(self, namespace: Hashable, ids: Sequence[int]) -> int:
        """Ends a retention early. Returns the tokens of `ids` that are cached."""
        tokens = self.radix.release(namespace, ids)
        self.verify()
        return tokens

    def clear(self) -> int:
        """Drops everything that no lease holds, retained or not. Returns the tokens dropped."""
        dropped = self._evict(self.radix.evictable)
        self.verify()
        return dropped

    def tree(self, depth: int = 8, nodes: int = 256) -> dict[str, Any]:
        """The tree as JSON, at most `depth` levels and `nodes` nodes: see `dump`."""
        return dump(self.radix, self._clock(), depth, nodes)

    def stats(self) -> CacheStats:
        return CacheStats(
            capacity=self.capacity,
            page_size=self.page_size,
            free=self.pool.free_slots,
            cached=self.radix.cached,
            private=self.private,
            leased=self.radix.leased,
            evictable=self.radix.evictable,
            nodes=self.radix.nodes,
            namespaces=len(self.radix.roots),
            leases=len(self.leases),
            query_tokens=self._query_tokens,
            hit_tokens=self._hit_tokens,
            evicted_tokens=self._evicted_tokens,
        )

    def check(self) -> None:
        """Recomputes every counter and the owner of every slot; AssertionError where they differ."""
        check_cache(self)

    # What follows is for leases.

    def hold(self, namespace: Hashable, node: Node, asked: int = 0) -> Lease:
        """A new lease on `node`, for a query of `asked` tokens."""
        self.radix.lease(node)
        lease = Lease(self, namespace, node, asked)
        self.leases[lease] = None
        self.verify()
        return lease

    def count(self, asked: int, cached: int) -> None:
        """A query really starts. Counted with its first room, so that waiting for memory counts nothing."""
        self._query_tokens += asked
        self._hit_tokens += cached

    def reserve(self, tokens: int, ahead: int, after: int | None) -> list[Extent] | None:
        """Private slots for `tokens`, or None if there are too few; and up to `ahead` more if there is plenty.

        Room ahead evicts nothing by itself, and one lease takes at most half of what is free.
        """
        wanted = self.pool.pages(tokens)
        if wanted > self.available:
            return None
        short = wanted + self.capacity // FREE_FLOOR - self.pool.free_slots
        if short > 0:
            self._evict(short)
        roomy = wanted + self._whole_pages(min(ahead, (self.pool.free_slots - wanted) // 2))
        if roomy + self.capacity // AHEAD_RESERVE <= self.available:
            wanted = roomy
        extents = self.pool.allocate(wanted, after)
        self.private += wanted
        return extents

    def adopt(self, published: list[Extent], existing: int) -> None:
        """A lease published private slots; the first `existing` are duplicates and become free."""
        self.private -= total(published)
        self.pool.free(cut(published, existing)[0])

    def drop(self, lease: Lease, private: list[Extent]) -> None:
        """A lease ends."""
        del self.leases[lease]
        self.radix.unlease(lease.node)
        self.private -= total(private)
        self.pool.free(private)
        self.verify()

    def verify(self) -> None:
        """`check`, in debug mode."""
        if self._debug:
            self.check()

    def _whole_pages(self, tokens: int) -> int:
        return tokens - tokens % self.page_size

    def _evict(self, wanted: int) -> int:
        freed = self.radix.evict(wanted)
        self.pool.free(freed)
        self._evicted_tokens += total(freed)
        return total(freed)
