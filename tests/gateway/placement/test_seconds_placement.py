"""The default policy: decisions from views, bindings and what was learned; no clock, no socket."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.base import Level
from gateway.placement.base import Reason, RequestView
from gateway.placement.seconds import EQUAL_S, EQUAL_SHARE, MOVE_S, SecondsPlacement, waiting_s
from tests.gateway.placement.views import NOW_MS, REQUEST, match, observe, replica, teach_rate


def policy(rate=1000):
    return SecondsPlacement(rate)


def choose(replicas, matches=(), request=REQUEST, by=None):
    return (by or policy()).choose(request, replicas, matches, NOW_MS)


def test_a_conversation_goes_home_even_when_home_is_busy():
    choice = choose([replica("a", 3, 500), replica("b")], [match("a")])
    assert (choice.url, choice.reason, choice.cached_tokens, choice.uncached_tokens) == ("a", Reason.BINDING, 900, 100)


def test_a_conversation_moves_when_waiting_costs_more_than_computing_again():
    choice = choose([replica("a", waiting=20_000), replica("b")], [match("a")])
    assert (choice.url, choice.reason, choice.cached_tokens) == ("b", Reason.SECONDS, 0)
    assert choice.seconds["b"] < choice.seconds["a"]


def test_a_home_that_is_no_candidate_or_runs_anew_is_left():
    assert choose([replica("b")], [match("a")]).url == "b"
    choice = choose([replica("a", in_flight=1, epoch="new"), replica("b")], [match("a", epoch="old")])
    assert (choice.url, choice.cached_tokens) == ("b", 0)


def test_an_older_turn_elsewhere_counts_too():
    turns = [match("gone"), match("b", tokens=800), match("b", tokens=300), match("a", Level.HEAD, 200)]
    choice = choose([replica("a"), replica("b")], turns)
    assert (choice.url, choice.reason, choice.cached_tokens) == ("b", Reason.BINDING, 800)


def test_a_shared_head_is_joined_until_waiting_costs_more_than_it_saves():
    head = [match("a", Level.HEAD, tokens=400)]
    joined = choose([replica("a", waiting=300), replica("b")], head)
    assert (joined.url, joined.reason, joined.cached_tokens) == ("a", Reason.HEAD, 400)
    assert choose([replica("a", waiting=900), replica("b")], head).url == "b"


def test_a_session_alone_decides_only_between_equals():
    session = [match("b", Level.SESSION)]
    choice = choose([replica("a"), replica("b", recent=5000)], session)
    assert (choice.url, choice.reason, choice.cached_tokens) == ("b", Reason.SESSION, 0)
    assert choose([replica("a"), replica("b", waiting=500)], session).url == "a"


def test_cold_requests_go_to_the_least_loaded_then_the_least_recent():
    assert choose([replica("a", in_flight=9), replica("b")]).url == "b"
    assert choose([replica("a"), replica("b", waiting=500)]).url == "a"
    assert choose([replica("a", recent=1000), replica("b")]).url == "b"


def test_what_the_oldest_request_has_behind_it_no_longer_waits():
    assert waiting_s(replica("a", waiting=3000, head=2000, head_s=1.5), 1000) == pytest.approx(1.5)
    late = replica("a", waiting=3000, head=2000, head_s=60)
    assert waiting_s(late, 1000) == pytest.approx(1.0)


def test_the_faster_replica_gets_the_cold_request():
    by = policy()
    teach_rate(by, "a", 1000)
    teach_rate(by, "b", 4000)
    assert choose([replica("a"), replica("b", waiting=1000)], by=by).url == "b"


def test_small_differences_of_learned_rates_do_not_herd():
    by = policy()
    teach_rate(by, "a", 1000)
    teach_rate(by, "b", 1040)
    assert choose([replica("a"), replica("b", recent=3000)], by=by).url == "a"


def test_a_replica_that_disappoints_is_no_home():
    by = policy()
    for _ in range(60):
        choice = choose([replica("a")], [match("a")], by=by)
        observe(by, choice, cached=0)
    busy_home = [replica("a", waiting=600), replica("b")]
    choice = choose(busy_home, [match("a")], by=by)
    assert (choice.url, choice.cached_tokens) == ("b", 0)
    assert choose(busy_home, [match("a")]).url == "a"


def test_lengths_are_told_in_the_engines_tokens():
    by = policy()
    for _ in range(200):
        observe(by, choose([replica("a")], by=by), estimated=1000, prompt=1300)
    choice = choose([replica("a")], [match("a", tokens=1200)], by=by)
    assert (choice.cached_tokens, choice.uncached_tokens) == (1200, 100)


def test_siblings_of_a_burst_spread_over_idle_replicas_and_later_ones_join():
    """Each replica computes the head once; none gets a second sibling before all have one."""
    by, waiting = policy(), Counter()
    urls = "abcd"
    for _ in range(12):
        choice = choose([replica(url, waiting=waiting[url]) for url in urls], request=REQUEST, by=by)
        waiting[choice.url] += choice.uncached_tokens
    first, joined = 1000, 600
    assert set(waiting.values()) == {first + 2 * joined}


def test_siblings_join_where_the_head_is_long_and_the_rest_is_short():
    by = policy()
    request = RequestView("head", 10_100, 10_000)
    first = choose([replica("a"), replica("b", waiting=5000)], request=request, by=by)
    second = choose([replica("a", waiting=first.uncached_tokens), replica("b", waiting=5000)], request=request, by=by)
    assert (first.url, second.url, second.reason) == ("a", "a", Reason.HEAD)


def test_a_head_that_several_hold_is_used_at_the_idlest():
    by = policy()
    for busy in "ab":
        choose([replica(url, waiting=9000 if url == busy else 0) for url in "ab"], by=by)
    choice = choose([replica("a", waiting=2000), replica("b"), replica("c")], [match("a", Level.HEAD, 400)], by=by)
    assert (choice.url, choice.reason, choice.cached_tokens) == ("b", Reason.HEAD, 400)


@given(st.text(min_size=1), st.permutations(["a", "b", "c"]), st.sampled_from("abc"))
def test_gateways_apart_agree_whatever_each_knows(alike, urls, known):
    request = replace(REQUEST, alike=alike)
    ones, others = [replica(url, recent=5000 * (url == "a")) for url in urls], [replica(url) for url in "abc"]
    one, other = choose(ones, [match(known)], request), choose(others, request=request)
    assert (one.url, one.reason) == (other.url, Reason.RENDEZVOUS)
    assert one.cached_tokens == (900 if one.url == known else 0)


def test_a_rendezvous_with_too_much_work_is_left():
    request = replace(REQUEST, alike="x")
    place = choose([replica(url) for url in "abc"], request=request).url
    busy = [replica(url, waiting=20_000 if url == place else 0) for url in "abc"]
    choice = choose(busy, request=request)
    assert (choice.url != place, choice.reason) == (True, Reason.SECONDS)


@given(st.text(min_size=1), st.permutations(["a", "b", "c", "d"]))
def test_equals_are_ranked_by_the_prefix_alone(prefix, urls):
    def first(tokens, urls):
        return choose([replica(url) for url in urls], request=RequestView(prefix, tokens)).url

    assert first(10, urls) == first(5000, sorted(urls))


def test_ranking_spreads_prefixes():
    replicas = [replica(url) for url in "abcd"]
    chosen = Counter(choose(replicas, request=RequestView(str(number), 10)).url for number in range(400))
    assert all(60 < chosen[url] < 140 for url in "abcd")


views = st.builds(
    replica,
    url=st.sampled_from("abcdef"),
    in_flight=st.integers(0, 50),
    waiting=st.integers(0, 300_000),
    recent=st.floats(0, 1e6),
    head=st.integers(0, 100_000),
    head_s=st.floats(0, 1000),
)
fleets = st.lists(views, min_size=1, max_size=6, unique_by=lambda view: view.url)
bindings = st.lists(
    st.builds(
        match,
        url=st.sampled_from("abcdefg"),
        level=st.sampled_from(Level),
        tokens=st.integers(0, 200_000),
        epoch=st.sampled_from(["e", "old"]),
        age_s=st.integers(0, 900),
    ),
    max_size=6,
)
requests = st.builds(RequestView, st.sampled_from("xyz"), st.integers(1, 200_000), st.integers(0, 100_000))


@given(fleets, bindings, requests)
def test_only_what_is_offered_is_chosen_and_never_more_held_than_asked(replicas, matches, request):
    choice = choose(replicas, matches, request)
    assert choice.seconds.keys() == {view.url for view in replicas}
    assert choice.url in choice.seconds
    assert 0 <= choice.cached_tokens < request.tokens or choice.cached_tokens == 0
    assert choice.cached_tokens + choice.uncached_tokens == request.tokens


@given(fleets, bindings, requests)
def test_affinity_is_bounded(replicas, matches, request):
    """Whatever is chosen costs hardly more than the best; a home that is left costs more than what took its place."""
    choice = choose(replicas, matches, request)
    least = min(choice.seconds.values())
    assert choice.seconds[choice.url] <= least * (1 + EQUAL_SHARE) + EQUAL_S + MOVE_S + 1e-9
    there = [one for one in matches if one.level is not Level.HEAD and one.binding.epoch == "e"]
    home = next((one.binding.replica for one in there if one.binding.replica in choice.seconds), None)
    if home is not None and choice.url != home:
        assert choice.seconds[home] > least * (1 + EQUAL_SHARE) + EQUAL_S
