"""Which KV slots are free. The pool knows neither tokens nor owners: it gives and takes runs of slots.

Long runs are the aim, because attention reads one run in one call. Free runs are kept twice, by start (to
join neighbours and to continue a run) and by length (for the best fit); both are sorted lists, so a search is
a bisection and an update one block move.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from engine.cache.extents import Extent, merge


class Pool:
    """An allocator over the slots [0, capacity), in whole pages of `page_size` slots."""

    def __init__(self, capacity: int, page_size: int = 1) -> None:
        if page_size < 1 or capacity < page_size or capacity % page_size:
            raise ValueError(f"KV capacity of {capacity} slots: give a positive multiple of the page size, {page_size}")
        self.capacity = capacity
        self.page_size = page_size
        self.free_slots = 0
        self._starts: list[int] = []
        self._lengths: dict[int, int] = {}
        self._by_length: list[tuple[int, int]] = []
        self._add(Extent(0, capacity))

    def pages(self, tokens: int) -> int:
        """The slots that `tokens` tokens take: whole pages."""
        return -(-tokens // self.page_size) * self.page_size

    def allocate(self, n: int, after: int | None = None) -> list[Extent] | None:
        """`n` slots, rounded up to pages, or None if fewer are free: all or nothing.

        They continue at slot `after` as far as that run goes; what is then missing comes from the shortest
        run that holds all of it, else from as few runs as possible.
        """
        wanted = self.pages(n)
        if wanted > self.free_slots:
            return None
        taken: list[Extent] = []
        if wanted and after is not None and after in self._lengths:
            taken.append(self._take(after, wanted))
            wanted -= taken[-1].length
        while wanted:
            taken.append(self._take(self._fit(wanted), wanted))
            wanted -= taken[-1].length
        return merge(taken)

    def free(self, extents: Iterable[Extent]) -> None:
        """Takes slots back. ValueError for slots outside the pool, free already, or in no whole pages."""
        for extent in extents:
            if extent.length:
                self._free(extent)

    def runs(self) -> list[Extent]:
        """The free runs by start: no two touch."""
        return [Extent(start, self._lengths[start]) for start in self._starts]

    def _fit(self, wanted: int) -> int:
        index = bisect_left(self._by_length, (wanted, 0))
        return self._by_length[min(index, len(self._by_length) - 1)][1]

    def _take(self, start: int, wanted: int) -> Extent:
        run = self._remove(start)
        taken = Extent(start, min(wanted, run.length))
        if taken.length < run.length:
            self._add(Extent(taken.stop, run.length - taken.length))
        return taken

    def _free(self, extent: Extent) -> None:
        start, stop = extent.start, extent.stop
        if start < 0 or extent.length < 0 or stop > self.capacity:
            raise ValueError(f"freed {extent}, which is outside the pool of {self.capacity} slots")
        if start % self.page_size or extent.length % self.page_size:
            raise ValueError(f"freed {extent}, which isn't whole pages of {self.page_size} slots")
        index = bisect_right(self._starts, start)
        before = self._starts[index - 1] if index else None
        behind = self._starts[index] if index < len(self._starts) else None
        if before is not None and before + self._lengths[before] > start:
            raise ValueError(f"freed {extent} twice: slot {start} is free already")
        if behind is not None and behind < stop:
            raise ValueError(f"freed {extent} twice: slot {behind} is free already")
        if behind == stop:
            stop = self._remove(stop).stop
        if before is not None and before + self._lengths[before] == start:
            start = self._remove(before).start
        self._add(Extent(start, stop - start))

    def _add(self, run: Extent) -> None:
        insort(self._starts, run.start)
        insort(self._by_length, (run.length, run.start))
        self._lengths[run.start] = run.length
        self.free_slots += run.length

    def _remove(self, start: int) -> Extent:
        length = self._lengths.pop(start)
        del self._starts[bisect_left(self._starts, start)]
        del self._by_length[bisect_left(self._by_length, (length, start))]
        self.free_slots -= length
        return Extent(start, length)
