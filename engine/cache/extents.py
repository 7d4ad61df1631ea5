"""Runs of KV slots: how the cache says where tokens lie, and the few ways to cut and join such runs.

A list of extents is ordered by token position, not by slot: token i of a list lies in the i-th slot that the
list names. All lengths are in slots, and one slot holds the keys and values of one token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Extent(NamedTuple):
    """The slots [start, start + length)."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        return self.start + self.length


def total(extents: Iterable[Extent]) -> int:
    """The number of slots in `extents`."""
    return sum(extent.length for extent in extents)


def merge(extents: Iterable[Extent]) -> list[Extent]:
    """The same slots in the same order, in as few extents as possible."""
    merged: list[Extent] = []
    for extent in extents:
        if merged and merged[-1].stop == extent.start:
            merged[-1] = Extent(merged[-1].start, merged[-1].length + extent.length)
        elif extent.length:
            merged.append(extent)
    return merged


def cut(extents: list[Extent], at: int) -> tuple[list[Extent], list[Extent]]:
    """The first `at` slots of `extents`, and the others. ValueError if there are fewer than `at`."""
    for index, extent in enumerate(extents):
        if at < extent.length:
            middle = extent.start + at
            head = [Extent(extent.start, at)] if at else []
            return extents[:index] + head, [Extent(middle, extent.stop - middle), *extents[index + 1 :]]
        at -= extent.length
    if at:
        raise ValueError(f"cut {at} slots past the end of {total(extents)} slots")
    return list(extents), []


def window(extents: list[Extent], start: int, count: int) -> list[Extent]:
    """The `count` slots of `extents` that begin with the one at offset `start`."""
    return cut(cut(extents, start)[1], count)[0]
