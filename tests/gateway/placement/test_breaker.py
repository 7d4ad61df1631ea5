"""The circuit breaker as a pure state machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.placement.breaker import Breaker, BreakerSettings, BreakerState
from tests.examples import examples

SETTINGS = BreakerSettings(failures=3, share=0.5, share_of=10, window_s=30, open_s=5)


def after(*outcomes, at=0.0):
    breaker = Breaker(SETTINGS)
    for failed in outcomes:
        breaker.begin(at).end(at, failed)
    return breaker


def test_failures_in_a_row_open_it():
    assert after(True, True).state is BreakerState.CLOSED
    assert after(True, True, False, True, True).state is BreakerState.CLOSED
    assert after(True, True, None, True).state is BreakerState.OPEN  # who left says nothing


def test_a_large_share_of_failures_opens_it():
    assert after(*[True, False] * 4).state is BreakerState.CLOSED
    assert after(*[False, True] * 5).state is BreakerState.OPEN


def test_old_failures_count_no_more():
    breaker = after(True, True)
    breaker.begin(40.0).end(40.0, failed=True)
    assert breaker.state is BreakerState.CLOSED


def test_open_then_one_trial():
    breaker = after(True, True, True)
    assert not breaker.admits(4.9)
    assert breaker.admits(5.0)
    trial = breaker.begin(5.0)
    assert breaker.state is BreakerState.HALF_OPEN
    assert not breaker.admits(5.0)
    trial.end(6.0, failed=False)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.admits(6.0)


def test_a_failed_trial_opens_it_again():
    breaker = after(True, True, True)
    breaker.begin(5.0).end(6.0, failed=True)
    assert breaker.state is BreakerState.OPEN
    assert not breaker.admits(10.9)
    assert breaker.admits(11.0)


def test_an_answer_that_begins_ends_the_trial_and_may_still_fail():
    breaker = after(True, True, True)
    trial = breaker.begin(5.0)
    trial.answers()
    assert breaker.state is BreakerState.CLOSED
    trial.end(9.0, failed=True)
    assert breaker.state is BreakerState.CLOSED
    for _ in range(2):
        breaker.begin(9.0).end(9.0, failed=True)
    assert breaker.state is BreakerState.OPEN


def test_a_trial_that_tells_nothing_leaves_room_for_the_next():
    breaker = after(True, True, True)
    breaker.begin(5.0).end(6.0, failed=None)
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.admits(6.0)


@pytest.mark.parametrize("failed", [True, False])
def test_who_went_out_before_it_opened_decides_nothing(failed):
    breaker = Breaker(SETTINGS)
    early = breaker.begin(0.0)
    for _ in range(3):
        breaker.begin(0.0).end(0.0, failed=True)
    early.end(3.0, failed=failed)
    assert breaker.state is BreakerState.OPEN
    assert breaker.admits(5.0)


def test_none_in_a_row_never_opens_it():
    breaker = Breaker(BreakerSettings(failures=0))
    for _ in range(200):
        breaker.begin(0.0).end(0.0, failed=True)
    assert breaker.state is BreakerState.CLOSED


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.floats(0, 4), st.sampled_from(["begin", "answers", "well", "failed", "left"]))))
def test_while_half_open_at_most_one_is_under_way_as_a_trial(steps):
    breaker, now, under_way = Breaker(SETTINGS), 0.0, []
    for wait, what in steps:
        now += wait
        if what == "begin":
            if breaker.admits(now):
                under_way.append(breaker.begin(now))
                if breaker.state is BreakerState.HALF_OPEN:
                    assert not breaker.admits(now)
        elif under_way and what == "answers":
            under_way[0].answers()
        elif under_way:
            under_way.pop(0).end(now, {"well": False, "failed": True, "left": None}[what])
    for trial in under_way:
        trial.end(now, failed=None)
    assert breaker.admits(now + SETTINGS.open_s)  # whatever happened, it lets somebody try again
