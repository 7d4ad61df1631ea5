"""Evict → the tier holds → acquire finds it there → it is back in the slots, and right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.extents import Extent
from engine.cache.manager import KVCache
from engine.cache.tier import HostTier


@pytest.fixture
def build(clock, tensors, new_host_copy):
    def make(capacity=64, page=1, host=64):
        copy = new_host_copy(tensors)
        tier = HostTier(host, page, copy)
        return KVCache(capacity, page, clock, debug=True, tier=tier), tier, copy

    return make


@pytest.mark.parametrize("page", [1, 4, 16])
def test_what_was_evicted_comes_back_without_being_computed(build, publish, tensors, page):
    cache, tier, copy = build(page=page)
    ids = list(range(32))
    publish(cache, ids)
    publish(cache, [99] * 64)
    assert cache.peek("ns", [*ids, 5]) == 0
    assert tier.held >= 32
    lease = cache.acquire("ns", [*ids, 5])
    assert (lease.cached, lease.committed, lease.node.end) == (32, 32, 32)
    tensors.read(lease, ids)
    assert tensors.compute(lease, [*ids, 5])
    assert copy.restored == 32
    assert cache.stats().hit_tokens == 32


def test_the_middle_of_a_path_is_enough(build, publish, tensors):
    """Half of it was computed again by another request, so the tier's part begins inside what it was given."""
    cache, _, copy = build()
    ids = list(range(30))
    publish(cache, ids)
    publish(cache, [99] * 64)
    publish(cache, [*ids[:12], 77])
    copy.restored = 0
    with cache.acquire("ns", [*ids[:20], 50]) as lease:
        assert lease.cached == 20
        assert copy.restored == 8
        tensors.read(lease, [*ids[:20], 50])


def test_what_comes_back_and_leaves_again_is_not_copied_again(build, publish):
    cache, _, copy = build()
    ids = list(range(20))
    publish(cache, ids)
    publish(cache, [99] * 64)
    saved = copy.saved
    cache.acquire("ns", [*ids, 5]).close()
    cache._evict(64)
    assert copy.saved == saved + 64  # of the 84 tokens that left since


def test_another_namespace_finds_nothing(build, publish):
    cache, _, copy = build()
    publish(cache, [1] * 20, namespace="a")
    publish(cache, [2] * 64, namespace="a")
    with cache.acquire("b", [1] * 20) as lease:
        assert (lease.cached, copy.restored) == (0, 0)


def test_without_memory_it_is_computed_later(build, publish):
    cache, _, copy = build()
    ids = list(range(20))
    publish(cache, ids)
    running = cache.acquire("ns", [99] * 64)
    assert running.grow(64)
    with cache.acquire("ns", [*ids, 5]) as waiting:
        assert (waiting.cached, copy.restored) == (0, 0)


def test_clear_copies_nothing(build, publish):
    cache, tier, _ = build()
    publish(cache, [1] * 20)
    assert cache.clear() == 20
    assert tier.held == 0


def test_a_full_tier_forgets_ends_before_beginnings(build, publish):
    cache, tier, _ = build(host=16)
    ids = list(range(40))
    publish(cache, ids)
    cache._evict(40)
    assert tier.held == 16
    assert tier.find("ns", ids, 0, 40) == 16
    publish(cache, [7] * 6)
    cache._evict(6)
    assert (tier.held, tier.find("ns", [7] * 6, 0, 6), tier.find("ns", ids, 0, 40)) == (16, 6, 10)


@pytest.mark.parametrize("again", ["loaded", "stored"])
def test_what_was_asked_for_again_is_forgotten_last(build, tensors, again):
    _, tier, _ = build(host=8)
    tensors.written = dict.fromkeys(range(8), ("ns", ()))
    one, two, three = [1] * 4, [2] * 4, [3] * 4
    for ids in (one, two):
        tier.store("ns", ids, 0, [Extent(0, 4)])
    if again == "loaded":
        assert tier.load("ns", one, 0, [Extent(4, 4)]) == 4
    else:
        tier.store("ns", one, 0, [Extent(0, 4)])
    tier.store("ns", three, 0, [Extent(0, 4)])
    assert [tier.find("ns", ids, 0, 4) for ids in (one, two, three)] == [4, 0, 4]


def test_a_tier_smaller_than_what_comes_back_makes_room_for_others_first(build, publish, tensors):
    """Bringing pages back evicts others into the tier, which may push out the very pages that are to come back."""
    cache, _, _ = build(capacity=32, host=16)
    one, two = list(range(16)), list(range(50, 82))
    for _ in range(4):
        for ids in (one, two):
            with cache.acquire("ns", ids) as lease:
                tensors.read(lease, ids)
                assert tensors.compute(lease, ids)
                lease.commit(ids)


def test_without_a_tier_nothing_comes_back(clock, publish):
    cache = KVCache(64, clock=clock, debug=True)
    publish(cache, [1] * 20)
    publish(cache, [2] * 64)
    assert cache.acquire("ns", [1] * 20).cached == 0


@settings(max_examples=60)
@given(data=st.data(), page=st.sampled_from([1, 4]))
def test_host_pages_hold_what_was_stored(data, page):
    """Against a dictionary of every page that was ever stored; each slot's content is its name here."""
    slots, host, truth = {}, {}, {}

    class Copy:
        def to_host(self, there, here):
            move(slots, there, host, here)

        def to_slots(self, there, here):
            move(host, there, slots, here)

    def move(source, there, target, here):
        pairs = [[slot for start, n in extents for slot in range(start, start + n)] for extents in (there, here)]
        for one, other in zip(*pairs, strict=True):
            target[other] = source[one]

    tier = HostTier(8 * page, page, Copy())
    for _ in range(data.draw(st.integers(1, 20))):
        pages = data.draw(st.integers(1, 12))
        ids = data.draw(st.lists(st.integers(0, 1), min_size=pages, max_size=pages)) * page
        start = data.draw(st.integers(0, pages - 1)) * page
        for i in range(start, len(ids)):
            slots[100 + i] = truth[tuple(ids[: i + 1])] = tuple(ids[: i + 1])
        tier.store("ns", ids, start, [Extent(100 + start, len(ids) - start)])
        assert tier.held <= 8 * page
        found = tier.find("ns", ids, start, len(ids))
        assert found >= min(len(ids) - start, 8 * page)
        slots.clear()
        assert tier.load("ns", ids, start, [Extent(500, len(ids) - start)]) == found
        assert [slots[500 + i] for i in range(found)] == [tuple(ids[: start + i + 1]) for i in range(found)]
