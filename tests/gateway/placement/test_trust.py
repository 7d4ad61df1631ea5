from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.base import Level
from gateway.placement.holdings import Holding
from gateway.placement.trust import MAX_REPLICAS, Trust


def learn(trust, *, age_s=10.0, promised=1000, cached=0, times=1, epoch="e"):
    for _ in range(times):
        trust.learn("a", epoch, age_s, promised, cached)


def test_a_stranger_is_believed():
    assert Trust().share("a", "e", 5) == 1.0


def test_trust_falls_in_proportion_to_what_was_missing():
    trust = Trust()
    learn(trust, cached=250, times=60)
    assert trust.share("a", "e", 10) == pytest.approx(0.25, abs=0.01)
    assert trust.tokens("a", "e", Holding(Level.PREFIX, 4000, 10)) == pytest.approx(1000, abs=40)


def test_one_miss_among_hits_costs_little_and_is_made_good():
    trust = Trust()
    learn(trust, cached=0)
    assert 0.8 < trust.share("a", "e", 10) < 1
    learn(trust, cached=1000, times=40)
    assert trust.share("a", "e", 10) > 0.99


def test_what_is_lost_after_a_minute_is_lost_after_an_hour_but_not_after_a_second():
    trust = Trust()
    learn(trust, age_s=60, times=60)
    assert trust.share("a", "e", 3600) == trust.share("a", "e", 60) < 0.01
    assert trust.share("a", "e", 1) == 1.0


def test_a_new_epoch_starts_afresh():
    trust = Trust()
    learn(trust, times=60)
    assert trust.share("a", "another boot", 10) == 1.0


def test_small_promises_tell_nothing():
    trust = Trust()
    learn(trust, promised=16, times=60)
    assert trust.share("a", "e", 10) == 1.0


events = st.tuples(st.floats(allow_nan=False), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))


@given(st.lists(events, max_size=60), st.lists(st.floats(min_value=0, allow_nan=False), min_size=2, max_size=2))
def test_trust_is_a_share_and_never_grows_with_age(seen, ages):
    trust = Trust()
    for age_s, promised, cached in seen:
        trust.learn("a", "e", age_s, promised, cached)
    younger, older = sorted(ages)
    assert 0 <= trust.share("a", "e", older) <= trust.share("a", "e", younger) <= 1


def test_memory_is_bounded():
    trust = Trust()
    for number in range(MAX_REPLICAS + 50):
        trust.learn(f"r{number}", "e", 1, 1000, 0)
    assert len(trust) == MAX_REPLICAS
