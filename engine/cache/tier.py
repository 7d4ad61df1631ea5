"""Slower, larger memory behind the KV pool, where evicted pages go and from where `acquire` brings them back.

On CPUs there is nothing behind the pool, so `NoTier` is the default. Beside a GPU, `HostTier` keeps evicted pages in
host memory; whoever owns the tensors gives it a `CopyPages`.

A page is named by the digest of all tokens up to its end (and its namespace), so it is found again whatever the tree
looks like by then, and one that comes back from eviction is recognised without a second copy.

Everything runs on the engine thread, between two steps.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from engine.cache.extents import Extent, merge
from engine.cache.keys import as_key
from engine.cache.pool import Pool


class Tier(Protocol):
    """What the cache asks of the memory behind it. All positions are whole pages."""

    def store(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> None:
        """The tokens `ids[start:]` lie in the slots `extents`, which are free after this call. Keep what you can."""

    def find(self, namespace: Hashable, ids: Sequence[int], start: int, end: int) -> int:
        """How many tokens from `ids[start]` on can be loaded, up to `end`."""

    def load(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> int:
        """Copies the tokens `ids[start:]` into the slots `extents`, as far as it has them. Returns how many."""


class CopyPages(Protocol):
    """Moves keys and values of all layers between KV slots and host slots; both lists name as many slots."""

    def to_host(self, slots: Sequence[Extent], host: Sequence[Extent]) -> None: ...

    def to_slots(self, host: Sequence[Extent], slots: Sequence[Extent]) -> None: ...


class NoTier:
    """Nothing behind the pool: what is evicted is gone."""

    def store(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> None:
        return

    def find(self, namespace: Hashable, ids: Sequence[int], start: int, end: int) -> int:
        return 0

    def load(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> int:
        return 0


class PageName(NamedTuple):
    namespace: Hashable
    digest: bytes


class HostTier:
    """`capacity` tokens of host memory. Pages not asked for longest are forgotten first, ends before beginnings."""

    def __init__(self, capacity: int, page_size: int, copy: CopyPages) -> None:
        self.page_size = page_size
        self._copy = copy
        self._pool = Pool(capacity, page_size)
        self._pages: OrderedDict[PageName, Extent] = OrderedDict()

    @property
    def held(self) -> int:
        """Tokens in it."""
        return len(self._pages) * self.page_size

    def store(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> None:
        pages = [*zip(self._names(namespace, ids, start), self._single(extents), strict=True)]
        slots: list[Extent] = []
        host: list[Extent] = []
        for name, page in reversed(pages[: self._pool.capacity // self.page_size]):
            if name not in self._pages:
                self._pages[name] = self._room()
                slots.append(page)
                host.append(self._pages[name])
            self._pages.move_to_end(name)
        if slots:
            self._copy.to_host(merge(reversed(slots)), merge(reversed(host)))

    def find(self, namespace: Hashable, ids: Sequence[int], start: int, end: int) -> int:
        whole = as_key(ids)[: end - end % self.page_size]
        return len(self._known(namespace, whole, start)) * self.page_size

    def load(self, namespace: Hashable, ids: Sequence[int], start: int, extents: Sequence[Extent]) -> int:
        names = self._known(namespace, ids, start)
        if names:
            slots = [*self._single(extents)][: len(names)]
            self._copy.to_slots(merge(self._pages[name] for name in names), merge(slots))
        for name in reversed(names):
            self._pages.move_to_end(name)
        return len(names) * self.page_size

    def _known(self, namespace: Hashable, ids: Sequence[int], start: int) -> list[PageName]:
        """The pages from `start` on, up to the first that isn't here."""
        known = []
        for name in self._names(namespace, ids, start):
            if name not in self._pages:
                break
            known.append(name)
        return known

    def _names(self, namespace: Hashable, ids: Sequence[int], start: int) -> Iterator[PageName]:
        """The whole pages of `ids` from `start` on. Each digest covers the one before it."""
        key: array[int] = as_key(ids)
        digest = b""
        for at in range(0, len(key) - self.page_size + 1, self.page_size):
            digest = blake2b(digest + key[at : at + self.page_size].tobytes(), digest_size=16).digest()
            if at >= start:
                yield PageName(namespace, digest)

    def _single(self, extents: Sequence[Extent]) -> Iterator[Extent]:
        for extent in extents:
            for start in range(extent.start, extent.stop, self.page_size):
                yield Extent(start, self.page_size)

    def _room(self) -> Extent:
        """One page of host memory, from the oldest page if there is no other."""
        if not self._pool.free_slots:
            self._pool.free([self._pages.popitem(last=False)[1]])
        room = self._pool.allocate(self.page_size)
        assert room is not None
        return room[0]
