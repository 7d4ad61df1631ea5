from __future__ import annotations

from gateway.affinity.base import Found, Level, LookupResult
from gateway.placement.holdings import current, holdings, resolve
from tests.gateway.placement.views import NOW_MS, match, replica


def test_resolve_takes_the_strongest_current_binding():
    replicas = [replica("a", epoch="new"), replica("b")]
    stale, now = match("a", epoch="old"), match("b", Level.HEAD)
    assert resolve(Found([stale, now], shared=True), replicas) == (now, LookupResult.HIT)
    assert resolve(Found([stale], shared=True), replicas) == (None, LookupResult.STALE_EPOCH)
    assert resolve(Found([match("gone")], shared=True), replicas) == (None, LookupResult.MISS)
    assert resolve(Found([], shared=False), replicas) == (None, LookupResult.FALLBACK)
    assert resolve(Found([now], shared=False), replicas) == (now, LookupResult.FALLBACK)


def test_each_replica_holds_its_strongest_binding():
    found = [match("a", tokens=900), match("b", tokens=500, age_s=7), match("a", tokens=400), match("c", epoch="old")]
    there = current(found, [replica(url) for url in "abc"])
    held = holdings(1000, there, NOW_MS)
    assert {url: (one.tokens, one.age_s) for url, one in held.items()} == {"a": (900, 0), "b": (500, 7)}


def test_one_token_is_always_computed_and_a_changed_history_holds_nothing():
    assert holdings(100, [match("a", tokens=900)], NOW_MS)["a"].tokens == 99
    assert holdings(100, [match("a", Level.SESSION)], NOW_MS)["a"].tokens == 0
    assert holdings(100, [match("a", age_s=-5)], NOW_MS)["a"].age_s == 0
