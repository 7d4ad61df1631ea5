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
from engine.cache.eviction import least_likely_first
from engine.cache.extents import Extent, cut, total
from engine.cache.lease import Lease
from engine.cache.node import Node
from engine.cache.pool import Pool
from engine.cache.sessions import Sessions
from engine.cache.stats import CacheStats
from engine.cache.tier import NoTier, Tier
from engine.cache.tree import RadixTree

# Room ahead is given only while this part of the memory (1/n) would stay available to others.
AHEAD_RESERVE = 8
# Eviction keeps this part of the memory (1/n) free, so that tokens which are decoded find long runs.
FREE_FLOOR = 128
# Token ids remembered to see which branches are superseded: 8 bytes each.
SESSION_TOKENS = 1_000_000


class KVCache:
    """All KV memory of one engine: `capacity` slots in pages of `page_size`. One thread owns it."""

    def __init__(
        self,
        capacity: int,
        page_size: int = 1,
        clock: Callable[[], float] = time.monotonic,
        debug: bool = False,
        tier: Tier | None = None,
    ) -> None:
        self.capacity = capacity
        self.page_size = page_size
        self.pool = Pool(capacity, page_size)
        self.radix = RadixTree(page_size, least_likely_first, clock)
        self.sessions = Sessions(SESSION_TOKENS)
        self.leases: dict[Lease, None] = {}
        self.private = 0
        self._tier = tier or NoTier()
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
        """How many tokens `acquire` would find in KV memory, for the order of admission. Changes nothing."""
        return self.radix.peek(namespace, ids, limit=max(0, len(ids) - 1))

    def acquire(self, namespace: Hashable, ids: Sequence[int]) -> Lease:
        """A lease on the longest cached prefix of `ids` but the last: at least one token is always computed.

        It takes no memory but for what comes back from the tier behind; `Lease.grow` does. A request that must
        not read the cache acquires with no ids.
        """
        limit = max(0, len(ids) - 1)
        lease = self._hold(namespace, self.radix.match(namespace, ids, limit).node, asked=len(ids))
        more = self._tier.find(namespace, ids, lease.cached, limit)
        if more:
            lease.restore(ids[: lease.cached + more], self._tier)
        return lease

    def retain(self, namespace: Hashable, ids: Sequence[int], seconds: float) -> int:
        """For `seconds` the cached part of `ids` is evicted after everything that isn't retained.

        A bias that decays, never a lock: a running request can always have the memory. Returns the tokens retained.
        """
        tokens = self.radix.retain(namespace, ids, seconds)
        self.verify()
        return tokens

    def release(self, namespace: Hashable, ids: Sequence[int]) -> int:
        """Ends a retention early. Returns the tokens of `ids` that are cached."""
        tokens = self.radix.release(namespace, ids)
        self.verify()
        return tokens

    def retain_session(self, namespace: Hashable, session: str, seconds: float) -> int:
        """`retain` for the newest turn of a session and its answers. Returns the tokens of the longest."""
        paths = self.sessions.newest(namespace, session)
        return max((self.retain(namespace, path, seconds) for path in paths), default=0)

    def release_session(self, namespace: Hashable, session: str) -> int:
        """`release` for the newest turn of a session and its answers."""
        paths = self.sessions.newest(namespace, session)
        return max((self.release(namespace, path) for path in paths), default=0)

    def begin_turn(self, namespace: Hashable, session: str, prompt: Sequence[int]) -> int:
        """A turn of a session is about to be submitted: what its earlier turn has behind the prefix that both share
        is superseded, and goes first. Returns the tokens that this marked."""
        left = self.sessions.begin(namespace, session, prompt)
        marked = sum(self.radix.supersede(namespace, path.ids, path.kept) for path in left)
        self.verify()
        return marked

    def end_turn(self, namespace: Hashable, session: str, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """An answer of that turn has ended. The next turn may go on from it, or leave it."""
        self.sessions.end(namespace, session, prompt, answer)

    def clear(self) -> int:
        """Drops everything that no lease holds, retained or not, without a copy. Returns the tokens dropped."""
        dropped = self._evict(self.radix.evictable, spill=False)
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

    def _hold(self, namespace: Hashable, node: Node, asked: int) -> Lease:
        """A new lease on `node`, for a query of `asked` tokens."""
        self.radix.lease(node)
        lease = Lease(self, namespace, node, asked)
        self.leases[lease] = None
        self.verify()
        return lease

    def _whole_pages(self, tokens: int) -> int:
        return tokens - tokens % self.page_size

    def _evict(self, wanted: int, spill: bool = True) -> int:
        freed = self.radix.evict(wanted, self._spill if spill else None)
        self.pool.free(freed)
        self._evicted_tokens += total(freed)
        return total(freed)

    def _spill(self, leaf: Node, keep: int) -> None:
        """All but the first `keep` tokens of `leaf` are about to leave: the tier may copy them."""
        start = leaf.end - len(leaf) + keep
        self._tier.store(self.radix.namespace(leaf), self.radix.ids(leaf), start, cut(leaf.extents, keep)[1])
