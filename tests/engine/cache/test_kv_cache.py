from __future__ import annotations

import json

import pytest

from engine.cache.extents import Extent
from engine.cache.manager import KVCache


@pytest.fixture
def cache(clock):
    return KVCache(64, clock=clock, debug=True)


def test_retained_memory_never_blocks_a_running_request(cache, publish, tensors):
    """sglang#27024: held session memory over-subscribed the pool and everything waited for everything."""
    for session in range(4):
        ids = [session] * 16
        publish(cache, ids)
        assert cache.retain("ns", ids, 3600) == 16
    lease = cache.acquire("ns", [9] * 64)
    assert tensors.compute(lease, [9] * 64)


def test_retention_keeps_a_session_through_a_burst_of_others(cache, publish, clock):
    kept, lost = [1] * 20, [2] * 20
    publish(cache, kept)
    publish(cache, lost)
    cache.retain("ns", kept, 60)
    for burst in range(5):
        clock.now += 1
        publish(cache, [100 + burst] * 30)
    assert cache.peek("ns", [*kept, 0]) == 20
    assert cache.peek("ns", [*lost, 0]) == 0
    assert cache.release("ns", kept) == 20
    clock.now += 1
    publish(cache, [200] * 60)
    assert cache.peek("ns", [*kept, 0]) < 20


def test_a_long_request_counts_as_a_use_until_it_ends(cache, publish, tensors, clock):
    ids = list(range(20))
    publish(cache, ids)
    lease = cache.acquire("ns", [*ids, 50])
    clock.now += 10
    publish(cache, [90] * 20)
    clock.now += 10
    lease.close()
    publish(cache, [91] * 40)
    assert cache.peek("ns", [*ids, 50]) == 20


def test_namespaces_are_separate(cache, publish):
    publish(cache, [1, 2, 3, 4], namespace=("m", "a"))
    assert publish(cache, [1, 2, 3, 4], namespace=("m", "b")) == 0
    assert publish(cache, [1, 2, 3, 4], namespace=("m", "a")) == 3
    assert cache.stats().namespaces == 2


def test_clear_drops_all_but_what_is_leased(cache, publish):
    publish(cache, [1, 2, 3, 4])
    publish(cache, [5, 6, 7])
    cache.retain("ns", [5, 6, 7], 3600)
    lease = cache.acquire("ns", [1, 2, 3])
    assert cache.clear() == 5
    stats = cache.stats()
    assert (stats.cached, stats.leased, stats.free) == (2, 2, 62)
    lease.close()
    assert cache.clear() == 2
    assert (cache.stats().free, cache.stats().nodes, cache.stats().namespaces) == (64, 0, 0)


def test_figures(cache, publish):
    publish(cache, list(range(10)))
    publish(cache, list(range(10)))
    stats = cache.stats()
    assert (stats.query_tokens, stats.hit_tokens, stats.hit_ratio) == (20, 9, 0.45)
    publish(cache, [50] * 60)
    assert cache.stats().evicted_tokens == 6
    assert stats.free + stats.private + stats.cached == stats.capacity


def test_a_request_is_counted_once_however_often_it_grows(cache):
    lease = cache.acquire("ns", [1, 2])
    for _ in range(60):
        assert lease.grow(1)
        lease.advance()
    assert cache.stats().query_tokens == 2


def test_a_request_that_waits_for_memory_is_counted_once(cache):
    big = cache.acquire("ns", [1] * 60)
    assert big.grow(60)
    for _ in range(3):
        with cache.acquire("ns", [2] * 30) as waiting:
            assert not waiting.grow(30)
    assert cache.stats().query_tokens == 60


def test_tree_is_bounded_json_without_token_ids(cache, publish, clock):
    for branch in range(6):
        publish(cache, [7, 7, 7, 1000 + branch, 5])
    cache.retain("ns", [7, 7, 7, 1000], 30)
    clock.now += 2
    lease = cache.acquire("ns", [7, 7, 7, 1005, 5, 5])
    shown = json.loads(json.dumps(cache.tree(depth=2, nodes=4)))
    (space,) = shown["namespaces"]
    (trunk,) = space["children"]
    assert (shown["tokens"], shown["leased"]) == (15, 5)
    assert (trunk["tokens"], trunk["end"], trunk["leases"], trunk["idle"]) == (3, 3, 1, 0)
    assert (trunk["retained"], len(trunk["children"]), trunk["hidden"]) == (28, 3, 3)
    assert trunk["children"][0]["node"] == lease.node.id
    assert "1005" not in json.dumps(shown)


@pytest.mark.parametrize(
    "damage",
    [
        lambda cache, lease: setattr(cache.radix, "cached", 1),
        lambda cache, lease: setattr(cache.radix, "leased", 1),
        lambda cache, lease: setattr(cache, "private", cache.private + 1),
        lambda cache, lease: setattr(lease, "allocated", lease.allocated + 1),
        lambda cache, lease: setattr(lease.node, "leases", 2),
        lambda cache, lease: cache.radix.leaves.clear(),
        lambda cache, lease: cache.pool.free([Extent(0, 1)]),
        lambda cache, lease: lease._private.append(lease._private[0]),
    ],
)
def test_check_finds_damage(clock, publish, damage):
    cache = KVCache(64, clock=clock)
    publish(cache, [1, 2, 3, 4])
    lease = cache.acquire("ns", [1, 2, 9])
    assert lease.grow(1)
    cache.check()
    damage(cache, lease)
    with pytest.raises(AssertionError):
        cache.check()
