from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.extents import Extent, cut, merge, total, window

extent_lists = st.lists(st.builds(Extent, st.integers(0, 40), st.integers(1, 9)), max_size=8)


def each(extents):
    return [slot for start, length in extents for slot in range(start, start + length)]


@given(extent_lists, st.data())
def test_cut_and_window_agree_with_lists_of_slots(extents, data):
    at = data.draw(st.integers(0, total(extents)))
    count = data.draw(st.integers(0, total(extents) - at))
    head, tail = cut(extents, at)
    assert each(head) == each(extents)[:at]
    assert each(tail) == each(extents)[at:]
    assert each(window(extents, at, count)) == each(extents)[at : at + count]
    assert all(extent.length > 0 for extent in [*head, *tail])


@given(extent_lists)
def test_merge_keeps_slots_and_leaves_no_neighbours(extents):
    merged = merge(extents)
    assert each(merged) == each(extents)
    assert all(a.stop != b.start for a, b in pairwise(merged))


def test_cut_past_the_end_is_an_error():
    with pytest.raises(ValueError, match="past the end of 4 slots"):
        cut([Extent(0, 4)], 5)
