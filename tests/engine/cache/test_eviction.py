"""What goes first, seen from outside: fill the cache, ask for memory, look what is still there."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest

from engine.cache.eviction import Standing, least_likely_first
from engine.cache.manager import KVCache
from engine.cache.node import Node

TASK, REASONING, ANSWER, NEXT = [1] * 10, [2] * 8, [3] * 5, [4] * 4


@pytest.fixture
def cache(clock):
    return KVCache(64, clock=clock, debug=True)


@pytest.fixture
def squeeze(publish):
    """Another session needs so much memory."""
    return lambda cache, tokens, token=99: publish(cache, [token] * tokens)


def node(last_use=0.0, retained=None, asked_at=0.0, superseded=False):
    made = Node(1, array("q", [1]), [], None)
    made.last_use, made.superseded = last_use, superseded
    if retained is not None:
        made.retain_until, made.retain_for = asked_at + retained, retained
    return made


def test_the_order_of_standings():
    order = [
        node(5.0, superseded=True),
        node(9.0, superseded=True),
        node(9.0, retained=3600, superseded=True),
        node(1.0),
        node(2.0, retained=9),  # over
        node(8.0),
        node(0.0, retained=11),
        node(0.0, retained=20),
    ]
    keys = [least_likely_first(it, now=10.0) for it in order]
    assert keys == sorted(keys)
    assert [key[0] for key in keys] == [Standing.SUPERSEDED] * 3 + [Standing.ORDINARY] * 3 + [Standing.RETAINED] * 2


def test_the_weight_of_a_retention_decays_to_nothing():
    held = node(retained=60, asked_at=100)
    weights = [least_likely_first(held, now)[1] for now in (100, 115, 130, 145, 159)]
    assert weights[0] == 1
    assert all(later < earlier for earlier, later in pairwise(weights))
    assert least_likely_first(held, 160) == (Standing.ORDINARY, 0.0, 0.0)


def test_an_old_long_retention_goes_before_a_fresh_short_one():
    hour, minute = node(retained=3600, asked_at=0), node(retained=60, asked_at=1800)
    assert least_likely_first(hour, 1800) < least_likely_first(minute, 1800)
    assert least_likely_first(minute, 1850) < least_likely_first(hour, 1850)


def test_the_superseded_branch_goes_before_what_was_used_longer_ago(cache, publish, squeeze, clock):
    """Dropped reasoning, an edited history: what the session left is the freshest, and still the first to go."""
    publish(cache, [7] * 20)
    clock.now += 10
    first = [*TASK, *REASONING, *ANSWER]
    cache.begin_turn("ns", "s", TASK)
    publish(cache, first)
    cache.end_turn("ns", "s", TASK, [*REASONING, *ANSWER])
    second = [*TASK, *ANSWER, *NEXT]
    assert cache.begin_turn("ns", "s", second) == len(REASONING) + len(ANSWER)
    clock.now += 10
    publish(cache, second)
    squeeze(cache, 25)
    assert cache.peek("ns", [*first, 0]) == len(TASK)
    assert cache.peek("ns", [*second, 0]) == len(second)
    assert cache.peek("ns", [7] * 21) == 20


def test_an_append_only_session_supersedes_nothing(cache, publish):
    ids = [1] * 5
    for turn in range(2, 6):
        assert cache.begin_turn("ns", "s", ids) == 0
        whole = [*ids, *[turn] * 5]
        publish(cache, whole)
        cache.end_turn("ns", "s", ids, [turn] * 5)
        ids = [*whole, turn + 100]
    assert cache.stats().evictable == cache.stats().cached


def test_what_others_use_is_not_superseded(cache, publish):
    """Two sessions share a task; one leaves it. What leads to the other's branch stays what it was."""
    mine, theirs = [*TASK, 20, 21, 22], [*TASK, 30, 31]
    cache.begin_turn("ns", "a", mine)
    publish(cache, mine)
    cache.begin_turn("ns", "b", theirs)
    publish(cache, theirs)
    assert cache.begin_turn("ns", "a", [TASK[0], 50]) == 3
    assert cache.begin_turn("ns", "b", [TASK[0], 51]) == 2 + len(TASK) - 1


def test_another_tenants_session_of_the_same_name_changes_nothing(cache, publish):
    cache.begin_turn("a", "s", [1, 2, 3])
    publish(cache, [1, 2, 3], namespace="a")
    publish(cache, [1, 2, 3], namespace="b")
    assert cache.begin_turn("b", "s", [1, 9]) == 0
    assert cache.begin_turn("a", "s", [1, 9]) == 2


def test_choices_that_the_client_did_not_take_are_superseded(cache, publish):
    cache.begin_turn("ns", "s", TASK)
    for choice in (20, 30, 40):
        publish(cache, [*TASK, *[choice] * 4])
        cache.end_turn("ns", "s", TASK, [choice] * 4)
    assert cache.begin_turn("ns", "s", [*TASK, *[30] * 4, 5]) == 8


def test_use_and_retention_end_the_mark(cache, publish):
    def marked(session):
        publish(cache, [1, 2, 3])
        cache.begin_turn("ns", session, [1, 2, 3])
        cache.begin_turn("ns", session, [1, 9])
        (trunk,) = cache.tree()["namespaces"][0]["children"]
        return trunk["children"][0]

    assert marked("a")["superseded"]
    cache.acquire("ns", [1, 2, 3, 4]).close()
    assert not cache.tree()["namespaces"][0]["children"][0]["children"][0]["superseded"]
    assert marked("b")["superseded"]
    cache.retain("ns", [1, 2, 3], 10)
    assert not cache.tree()["namespaces"][0]["children"][0]["children"][0]["superseded"]


def test_a_running_request_keeps_its_branch(cache, publish, tensors):
    ids = [1, 2, 3, 4]
    cache.begin_turn("ns", "s", ids)
    publish(cache, ids)
    with cache.acquire("ns", [*ids, 5]) as lease:
        assert cache.begin_turn("ns", "s", [1, 9]) == 0
        assert lease.grow(60)
        tensors.read(lease, ids)


def test_a_release_leaves_the_ordinary_order(cache, publish, squeeze, clock):
    publish(cache, [1] * 20)
    cache.retain("ns", [1] * 20, 600)
    clock.now += 1
    publish(cache, [2] * 20)
    cache.release("ns", [1] * 20)
    squeeze(cache, 40)
    assert cache.peek("ns", [1] * 21) < 20
    assert cache.peek("ns", [2] * 21) == 20


def test_the_retained_go_too_when_nothing_else_is_left(cache, publish, squeeze):
    publish(cache, [1] * 20)
    cache.retain("ns", [1] * 20, 600)
    squeeze(cache, 64)
    assert cache.peek("ns", [1] * 21) == 0


@pytest.mark.parametrize("page", [4, 16])
def test_whole_pages_are_superseded(page, clock, publish):
    cache = KVCache(16 * page, page, clock, debug=True)
    old = list(range(3 * page))
    new = [*old[: page + 1], *[99] * page]
    cache.begin_turn("ns", "s", old)
    publish(cache, old)
    assert cache.begin_turn("ns", "s", new) == 2 * page
    assert publish(cache, new) == page
