"""Placement as a pure function."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.base import Binding, Found, Level, LookupResult, Match
from gateway.placement.policy import Reason, ReplicaView, RequestView, SecondsPlacement, resolve

POLICY = SecondsPlacement(prefill_tokens_per_s=1000)
REQUEST = RequestView("prefix", 1000)


def replica(url, in_flight=0, waiting=0, recent=0.0, epoch="e"):
    return ReplicaView(url, epoch, in_flight, waiting, recent)


def match(url, level=Level.PREFIX, tokens=900, epoch="e"):
    return Match(level, Binding(url, epoch, tokens, "l", 1))


def test_a_conversation_goes_home_even_when_home_is_busy():
    choice = POLICY.choose(REQUEST, [replica("a", 3, 500), replica("b")], match("a"))
    assert (choice.url, choice.reason, choice.cached_tokens) == ("a", Reason.BINDING, 900)


def test_a_home_that_is_no_candidate_is_left():
    assert POLICY.choose(REQUEST, [replica("b")], match("a")).url == "b"


def test_a_shared_head_is_joined_until_waiting_costs_more_than_it_saves():
    head = match("a", Level.HEAD, tokens=400)
    joined = POLICY.choose(REQUEST, [replica("a", waiting=300), replica("b")], head)
    assert (joined.url, joined.reason, joined.cached_tokens) == ("a", Reason.HEAD, 400)
    assert POLICY.choose(REQUEST, [replica("a", waiting=500), replica("b")], head).url == "b"


def test_a_session_alone_decides_only_between_equals():
    session = match("b", Level.SESSION)
    choice = POLICY.choose(REQUEST, [replica("a"), replica("b", recent=5000)], session)
    assert (choice.url, choice.reason, choice.cached_tokens) == ("b", Reason.SESSION, 0)
    assert POLICY.choose(REQUEST, [replica("a"), replica("b", in_flight=1)], session).url == "a"


def test_cold_requests_go_to_the_least_loaded_then_the_least_recent():
    assert POLICY.choose(REQUEST, [replica("a", in_flight=1), replica("b")], None).url == "b"
    assert POLICY.choose(REQUEST, [replica("a"), replica("b", waiting=10)], None).url == "a"
    assert POLICY.choose(REQUEST, [replica("a", recent=1000), replica("b")], None).url == "b"


@given(st.text(min_size=1), st.permutations(["a", "b", "c", "d"]))
def test_equals_are_ranked_by_the_prefix_alone(prefix, urls):
    def choose(tokens, urls):
        return POLICY.choose(RequestView(prefix, tokens), [replica(url) for url in urls], None).url

    assert choose(10, urls) == choose(5000, sorted(urls))


def test_ranking_spreads_prefixes():
    urls = [replica(url) for url in "abcd"]
    chosen = [POLICY.choose(RequestView(str(n), 10), urls, None).url for n in range(400)]
    assert all(60 < chosen.count(url) < 140 for url in "abcd")


def test_resolve_takes_the_strongest_current_binding():
    replicas = [replica("a", epoch="new"), replica("b")]
    stale, current = match("a", epoch="old"), match("b", Level.HEAD)
    assert resolve(Found([stale, current], shared=True), replicas) == (current, LookupResult.HIT)
    assert resolve(Found([stale], shared=True), replicas) == (None, LookupResult.STALE_EPOCH)
    assert resolve(Found([match("gone")], shared=True), replicas) == (None, LookupResult.MISS)
    assert resolve(Found([], shared=False), replicas) == (None, LookupResult.FALLBACK)
    assert resolve(Found([current], shared=False), replicas) == (current, LookupResult.FALLBACK)
