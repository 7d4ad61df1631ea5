from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.check import check_pool
from engine.cache.extents import Extent
from engine.cache.pool import Pool


def each(extents):
    return [slot for start, length in extents for slot in range(start, start + length)]


@given(st.sampled_from([1, 4, 16]), st.data())
def test_pool_agrees_with_a_set_of_slots(page, data):
    pool = Pool(page * 12, page)
    free = set(range(pool.capacity))
    held: list[list[Extent]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            extents = held.pop(data.draw(st.integers(0, len(held) - 1)))
            pool.free(extents)
            free |= set(each(extents))
        else:
            n = data.draw(st.integers(0, page * 6))
            after = data.draw(st.none() | st.integers(0, pool.capacity))
            extents = pool.allocate(n, after)
            rounded = -(-n // page) * page
            assert (extents is None) == (rounded > len(free))
            if extents is not None:
                taken = each(extents)
                assert len(taken) == len(set(taken)) == rounded
                assert set(taken) <= free
                free -= set(taken)
                held.append(extents)
        assert pool.free_slots == len(free)
        assert set(each(pool.runs())) == free
        check_pool(pool)


def holed(*lengths: int) -> Pool:
    """A pool whose free runs have just these lengths, each followed by a slot in use."""
    pool = Pool(sum(lengths) + len(lengths))
    pool.allocate(pool.capacity)
    start = 0
    for length in lengths:
        pool.free([Extent(start, length)])
        start += length + 1
    return pool


def test_continues_after_the_given_slot():
    pool = Pool(100)
    first = pool.allocate(10)
    assert first == [Extent(0, 10)]
    assert pool.allocate(5, after=10) == [Extent(10, 5)]


def test_continues_as_far_as_the_run_goes():
    assert holed(3, 5, 9).allocate(7, after=4) == [Extent(4, 5), Extent(0, 2)]


def test_best_fit_in_one_run():
    assert holed(9, 4, 6).allocate(5) == [Extent(15, 5)]


def test_few_runs_when_none_is_long_enough():
    assert holed(2, 6, 1, 5).allocate(11) == [Extent(3, 6), Extent(12, 5)]


def test_all_or_nothing():
    pool = holed(2, 3)
    assert pool.allocate(6) is None
    assert pool.free_slots == 5


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        (Extent(0, 2), "twice"),
        (Extent(3, 3), "twice"),
        (Extent(8, 4), "outside"),
        (Extent(-1, 1), "outside"),
    ],
)
def test_a_wrong_free_is_an_error_and_changes_nothing(extent, message):
    pool = Pool(10)
    pool.allocate(8)
    pool.free([Extent(0, 4)])
    with pytest.raises(ValueError, match=message):
        pool.free([extent])
    check_pool(pool)
    assert pool.free_slots == 6


def test_a_free_must_be_whole_pages():
    pool = Pool(32, 16)
    pool.allocate(20)
    with pytest.raises(ValueError, match="whole pages of 16"):
        pool.free([Extent(0, 8)])


@pytest.mark.parametrize(("capacity", "page"), [(0, 1), (10, 16), (40, 16), (8, 0)])
def test_capacity_must_be_whole_pages(capacity, page):
    with pytest.raises(ValueError, match="page size"):
        Pool(capacity, page)
