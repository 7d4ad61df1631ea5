"""All policies behind the one interface, and what is particular to the simple ones."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.base import Level
from gateway.config_pools import PolicyName
from gateway.placement.base import Reason, RequestView
from gateway.placement.policy import policy_named
from tests.gateway.placement.test_seconds_placement import bindings, fleets, requests
from tests.gateway.placement.views import NOW_MS, REQUEST, match, observe, replica, teach_rate


def choose(policy, replicas, matches=(), request=REQUEST):
    return policy.choose(request, replicas, matches, NOW_MS)


@given(st.sampled_from(PolicyName), st.lists(st.tuples(fleets, bindings, requests), max_size=5))
def test_every_policy_chooses_what_is_offered_and_accounts_for_the_prompt(name, asked):
    policy = policy_named(name, 2000)
    for replicas, matches, request in asked:
        choice = choose(policy, replicas, matches, request)
        assert choice.url in {view.url for view in replicas}
        assert choice.cached_tokens >= 0
        assert choice.cached_tokens + choice.uncached_tokens == request.tokens
        assert choice.cached_tokens <= choice.bound_tokens


@pytest.mark.parametrize("name", PolicyName)
def test_every_policy_learns_rates_and_trust(name):
    policy = policy_named(name, 2000)
    assert policy.rate("a", "e") == pytest.approx(2000)
    teach_rate(policy, "a", 8000)
    assert policy.rate("a", "e") == pytest.approx(8000, rel=0.05)
    believed = choose(policy, [replica("a")], [match("a")])
    assert believed.cached_tokens == 900
    for _ in range(60):
        observe(policy, choose(policy, [replica("a")], [match("a")]), cached=0)
    assert choose(policy, [replica("a")], [match("a")]).cached_tokens < 10


def test_engines_that_do_not_say_what_was_cached_still_teach_their_rate():
    policy = policy_named(PolicyName.SECONDS, 2000)
    for _ in range(200):
        choice = choose(policy, [replica("a")], [match("a", tokens=4000)], RequestView("head", 6000))
        observe(policy, choice, prompt=6000, cached=None, seconds=0.25, estimated=6000)
    assert policy.rate("a", "e") == pytest.approx(8000, rel=0.05)


def test_session_keeps_its_home_however_busy():
    policy = policy_named(PolicyName.SESSION, 2000)
    busy = [replica("a", 40, 500_000), replica("b")]
    choice = choose(policy, busy, [match("a")])
    assert (choice.url, choice.reason, choice.cached_tokens) == ("a", Reason.BINDING, 900)
    changed = choose(policy, busy, [match("a", Level.SESSION)])
    assert (changed.url, changed.reason, changed.cached_tokens) == ("a", Reason.SESSION, 0)


def test_session_meets_while_gateways_are_apart():
    policy = policy_named(PolicyName.SESSION, 2000)
    request = RequestView("head", 1000, 400, alike="x")
    choices = [choose(policy, [replica("a"), replica("b")], [match(home)], request) for home in "ab"]
    assert choices[0].url == choices[1].url
    assert {choice.reason for choice in choices} == {Reason.RENDEZVOUS}


def test_session_starts_where_least_runs():
    policy = policy_named(PolicyName.SESSION, 2000)
    choice = choose(policy, [replica("a", 2), replica("b", 1)], [match("a", Level.HEAD)])
    assert (choice.url, choice.reason) == ("b", Reason.LEAST_LOADED)


def test_least_loaded_counts_requests_then_work():
    policy = policy_named(PolicyName.LEAST_LOADED, 2000)
    assert choose(policy, [replica("a", 2), replica("b", 1, 9000)], [match("a")]).url == "b"
    assert choose(policy, [replica("a", 1, 10), replica("b", 1, 9000)]).url == "a"
    choice = choose(policy, [replica("a"), replica("b", recent=99)], [match("a")])
    assert (choice.url, choice.reason, choice.cached_tokens) == ("a", Reason.LEAST_LOADED, 900)


def test_round_robin_takes_each_in_turn_and_skips_the_absent():
    policy = policy_named(PolicyName.ROUND_ROBIN, 2000)
    everyone = [replica(url) for url in "cab"]
    assert [choose(policy, everyone).url for _ in range(4)] == ["a", "b", "c", "a"]
    assert choose(policy, [replica("a"), replica("c")]).url == "c"
    assert Counter(choose(policy, everyone).url for _ in range(300)) == {"a": 100, "b": 100, "c": 100}
