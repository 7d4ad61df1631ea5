"""The one thing a running request owns in KV memory.

Token positions of a request, and where their keys and values lie:

    0              node.end       committed            allocated
    |--- shared ------|-- private: valid --|-- private: room --|
      slots of the tree    computed, ours      not yet written

`committed` and `allocated` are explicit counters: neither is inferred from the other or from a token list.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from engine.cache.extents import Extent, cut, merge, total, window
from engine.cache.keys import as_key
from engine.cache.node import Node
from engine.cache.tier import Tier

if TYPE_CHECKING:
    from engine.cache.manager import KVCache

# A lease that grows takes some room ahead, so that its next tokens lie next to its last: half of what it has
# privately, between these bounds (tokens). The number of extents then grows with the logarithm of the length.
AHEAD_AT_LEAST = 16
AHEAD_AT_MOST = 256


class Lease:
    """A lock on a path of the tree, and private slots after it. Made by `KVCache.acquire`.

    `close` is the only exit and may be called again; every other call on a closed lease is a RuntimeError.
    An aborted request is only marked: close its lease when no step that writes its slots is under way.
    """

    def __init__(self, cache: KVCache, namespace: Hashable, node: Node, asked: int) -> None:
        self.namespace = namespace
        self.node = node
        self.cached = node.end
        self.committed = node.end
        self.allocated = node.end
        self.closed = False
        self._asked = asked
        self._cache = cache
        self._private: list[Extent] = []
        self._shared = cache.radix.spans(node)

    def grow(self, n: int) -> bool:
        """Makes room for `n` tokens beyond the committed ones; evicts what no lease holds if it must.

        False, with nothing changed, when the memory isn't there.
        """
        self._check_open()
        missing = self.committed + n - self.allocated
        if missing <= 0:
            return True
        if not self._reserve(missing):
            return False
        if self._asked:
            self._cache.count(self._asked, self.cached)
            self._asked = 0
        self._cache.verify()
        return True

    def restore(self, ids: Sequence[int], tier: Tier) -> None:
        """Brings the tokens of `ids` that follow the cached ones back from `tier`, and publishes them.

        For `KVCache.acquire`, on a new lease. Without memory for them nothing happens: they are computed instead.
        """
        count = len(ids) - self.committed
        if not self._reserve(count):
            return
        valid = self.committed + tier.load(self.namespace, ids, self.committed, self.slots(self.committed, count))
        self.committed = valid
        self._publish(ids, valid)
        self.cached = self.node.end
        self._cache.verify()

    def slots(self, start: int, count: int) -> list[Extent]:
        """The slots of the token positions [start, start + count), which must be within `allocated`."""
        self._check_open()
        if start < 0 or count < 0 or start + count > self.allocated:
            raise ValueError(f"positions {start}..{start + count} of a lease with {self.allocated} slots")
        border = self.node.end
        if start >= border:
            return window(self._private, start - border, count)
        if start + count <= border:
            return window(self._shared, start, count)
        shared = window(self._shared, start, border - start)
        return merge([*shared, *window(self._private, 0, start + count - border)])

    def advance(self, n: int = 1) -> None:
        """`n` more tokens are computed; they stay private until the next commit."""
        self._check_open()
        if n < 0 or self.committed + n > self.allocated:
            raise ValueError(f"advance by {n}: {self.committed} committed, {self.allocated} allocated")
        self.committed += n

    def commit(self, ids: Sequence[int]) -> None:
        """`ids` are all tokens computed so far, from position 0: publishes their whole pages.

        Where another request published the same tokens first, this lease uses the tree's slots from now on,
        and its own are free. Needs no memory, so it can't fail for want of it.
        """
        self._check_open()
        if not self.committed <= len(ids) <= self.allocated:
            raise ValueError(f"commit of {len(ids)} tokens: {self.committed} committed, {self.allocated} allocated")
        self.committed = len(ids)
        self._publish(ids, len(ids))
        self._cache.verify()

    def close(self, ids: Sequence[int] | None = None) -> None:
        """Gives everything back. Closing again does nothing.

        `ids` are all known tokens from position 0: the whole pages of them that are computed stay cached.
        Without `ids` nothing more is published.
        """
        if self.closed:
            return
        self._cache.radix.touch(self.node)
        try:
            if ids is not None:
                self._publish(ids, min(len(ids), self.committed))
        finally:
            self.closed = True
            self._cache.drop(self, self._private)
            self._private, self._shared = [], []

    def _reserve(self, missing: int) -> bool:
        ahead = min(AHEAD_AT_MOST, max(AHEAD_AT_LEAST, (self.allocated - self.node.end) // 2))
        last = (self._private or self._shared)[-1:]
        extents = self._cache.reserve(missing, ahead, after=last[0].stop if last else None)
        if extents is None:
            return False
        self._private = merge([*self._private, *extents])
        self.allocated += total(extents)
        return True

    def _publish(self, ids: Sequence[int], valid: int) -> None:
        """Insert, re-point, free the duplicates: in this order, so that no slot in use is ever free."""
        end = valid - valid % self._cache.page_size
        if end <= self.node.end:
            return
        radix, held = self._cache.radix, self.node
        if radix.peek(self.namespace, ids, limit=held.end) != held.end:
            raise ValueError(f"the ids differ from the lease's first {held.end} tokens: give all, from position 0")
        published, rest = cut(self._private, end - held.end)
        # The insertion may extend `held` itself, so what is needed of it is taken before.
        node, existing = radix.insert(as_key(ids)[:end], published, below=held)
        radix.lease(node, held=held)
        self.node, self._private = node, rest
        self._shared = radix.spans(node)
        self._cache.adopt(published, existing)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the lease is closed: acquire another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
