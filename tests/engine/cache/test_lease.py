from __future__ import annotations

import pytest

from engine.cache.extents import Extent
from engine.cache.manager import KVCache


@pytest.fixture
def cache(clock):
    return KVCache(64, clock=clock, debug=True)


def test_at_least_one_token_is_always_computed(clock, publish):
    """nano-vllm#144: a prompt of whole blocks that are all cached left nothing to compute."""
    for page in (1, 4, 16):
        cache = KVCache(64, page, clock, debug=True)
        ids = list(range(32))
        publish(cache, ids)
        assert cache.peek("ns", ids) == cache.acquire("ns", ids).cached == (31 if page == 1 else 32 - page)


def test_a_lease_that_lost_the_race_uses_the_slots_of_the_tree(cache, tensors):
    """mini-sglang#142: after losing the race a request still pointed at its freed duplicates."""
    ids = list(range(20))
    winner, loser = cache.acquire("ns", ids), cache.acquire("ns", ids)
    assert tensors.compute(winner, ids)
    assert tensors.compute(loser, ids, upto=15)
    theirs = loser.slots(0, 15)
    winner.commit(ids)
    free = cache.stats().free
    loser.commit(ids[:15])
    assert loser.slots(0, 15) == winner.slots(0, 15) != theirs
    assert cache.stats().free == free + 15
    third = cache.acquire("other", [5] * 15)
    assert tensors.compute(third, [5] * 15)
    tensors.read(loser, ids)
    assert tensors.compute(loser, ids)


def test_closing_twice_frees_once(cache, tensors):
    """mini-sglang#111, sglang PR#12224: abort and finish both freed, the second time another's slots."""
    ids = list(range(10))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids)
    lease.close()
    assert cache.stats().free == 64
    other = cache.acquire("ns", [7] * 40)
    assert tensors.compute(other, [7] * 40)
    lease.close(ids)
    lease.close()
    tensors.read(other, [7] * 40)
    assert cache.stats().private == other.allocated - other.node.end


def test_close_frees_room_that_was_never_written(cache, tensors):
    """sglang PR#12224: what is committed and what is allocated are two numbers."""
    ids = list(range(10))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids)
    assert lease.grow(3)
    assert (lease.committed, lease.allocated >= 13) == (10, True)
    lease.close([*ids, 97, 98, 99])
    stats = cache.stats()
    assert (stats.cached, stats.free, stats.private) == (10, 54, 0)


def test_close_publishes_only_what_the_ids_name(cache, tensors):
    ids = list(range(10))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids)
    lease.close(ids[:6])
    assert cache.peek("ns", [*ids, 0]) == 6


def test_decoded_tokens_lie_next_to_one_another(cache, tensors):
    ids = list(range(8))
    first, second = cache.acquire("ns", ids), cache.acquire("ns", [50, 51])
    assert tensors.compute(first, ids)
    assert tensors.compute(second, [50, 51])
    for token in range(100, 108):
        ids.append(token)
        assert tensors.compute(first, ids)
    assert len(first.slots(0, 16)) == 1
    assert first.slots(15, 1) == [Extent(first.slots(0, 1)[0].start + 15, 1)]


def test_grow_is_all_or_nothing(cache, tensors, publish):
    publish(cache, list(range(20)))
    lease = cache.acquire("ns", [99])
    assert not lease.grow(65)
    assert cache.stats().cached == 20
    assert lease.grow(64)
    assert cache.stats().cached == 0


def test_grow_never_evicts_the_leases_own_prefix(cache, tensors, publish):
    ids = list(range(20))
    publish(cache, ids)
    lease = cache.acquire("ns", [*ids, 50])
    assert lease.cached == 20
    assert not lease.grow(45)
    assert lease.grow(44)
    tensors.read(lease, ids)


def test_branches_share_the_prefix_and_cost_nothing(cache, tensors):
    ids = list(range(12))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids)
    lease.commit(ids)
    before = cache.stats().free
    branches = [cache.acquire("ns", [*ids, token]) for token in range(100, 116)]
    assert cache.stats().free == before
    assert all(branch.node is lease.node for branch in branches)
    lease.close()
    for token, branch in enumerate(branches[:3], 100):
        assert tensors.compute(branch, [*ids, token])
    for branch in branches:
        branch.close()
    assert cache.stats().leased == 0


def test_a_branch_computes_only_the_partial_page_again(clock, tensors):
    cache = KVCache(64, 16, clock, debug=True)
    ids = list(range(20))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids)
    lease.commit(ids)
    branch = cache.acquire("ns", ids)
    assert (branch.committed, branch.node, lease.committed) == (16, lease.node, 20)
    tensors.read(lease, ids)
    assert tensors.compute(branch, ids)


def test_slots_across_the_border_are_merged(cache, tensors):
    ids = list(range(12))
    lease = cache.acquire("ns", ids)
    assert tensors.compute(lease, ids, upto=8)
    lease.commit(ids[:8])
    assert tensors.compute(lease, ids)
    assert lease.slots(8, 4) == [Extent(8, 4)]
    assert lease.slots(0, 12) == [Extent(0, 12)]
    assert lease.slots(6, 4) == [Extent(6, 4)]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda lease: lease.advance(lease.allocated - lease.committed + 1),
        lambda lease: lease.advance(-1),
        lambda lease: lease.slots(0, lease.allocated + 1),
        lambda lease: lease.slots(-1, 1),
        lambda lease: lease.commit([1, 2]),
        lambda lease: lease.commit([9] * (lease.allocated + 1)),
        lambda lease: lease.commit([9, 9, 9, 9]),
    ],
)
def test_misuse_is_an_error_and_changes_nothing(cache, tensors, misuse):
    lease = cache.acquire("ns", [1, 2, 3, 4])
    assert tensors.compute(lease, [1, 2, 3, 4], upto=3)
    lease.commit([1, 2, 3])
    with pytest.raises(ValueError, match=r"advance|positions|commit|differ"):
        misuse(lease)
    lease.close()
    assert cache.stats().cached == 3


def test_a_closed_lease_cannot_be_used(cache):
    with cache.acquire("ns", [1, 2]) as lease:
        assert lease.grow(2)
    assert cache.stats().free == 64
    for use in (lease.grow, lease.advance, lambda n: lease.slots(0, 0), lambda n: lease.commit([1, 2])):
        with pytest.raises(RuntimeError, match="closed"):
            use(1)


def test_decoded_tokens_find_long_runs_in_a_full_cache(clock):
    """Requests that decode in turns would otherwise end up with an extent every few tokens."""
    cache = KVCache(8192, clock=clock)
    for prompt in range(400):
        ids = [prompt] * 30
        with cache.acquire("ns", ids) as lease:
            assert lease.grow(30)
            lease.commit(ids)
    leases = [cache.acquire("ns", [1000 + i]) for i in range(8)]
    for _ in range(300):
        for lease in leases:
            assert lease.grow(1)
            lease.advance()
    assert cache.stats().evicted_tokens > 6000
    assert all(len(lease.slots(0, lease.committed)) <= 20 for lease in leases)
