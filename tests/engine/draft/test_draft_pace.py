from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.config import DraftConfig
from engine.draft.pace import Pace, Phase, best_length

CONFIG = DraftConfig(row_cost=0.2, pause_tokens=10, max_pause_tokens=35, probe_tokens=2)


@given(st.floats(0, 1), st.floats(0, 2), st.integers(0, 20))
def test_best_length_yields_the_most_tokens_for_the_time(rate, row_cost, limit):
    def value(length):
        return sum(rate**i for i in range(length + 1)) / (1 + row_cost * length)

    assert value(best_length(rate, row_cost, limit)) >= max(map(value, range(limit + 1))) - 1e-9


def test_nothing_is_drafted_where_a_row_costs_more_than_it_yields():
    assert best_length(0.3, 0.3, 8) == 0
    assert best_length(0.3, 0.29, 8) == 1


def stopped():
    pace = Pace(CONFIG, 0.5)
    while pace.phase is Phase.DRAFTING:
        pace.verified(4, 0, position=100)
    return pace


def test_the_rate_counts_only_tokens_that_were_judged():
    pace = Pace(CONFIG, 0.5)
    pace.verified(8, 3, position=0)  # three right, one wrong, four unknown
    assert pace.rate == pytest.approx((1 * 0.9 + 3) / (2 * 0.9 + 4))
    pace.verified(2, 2, position=0)
    assert pace.rate == pytest.approx((3.9 * 0.9 + 2) / (5.8 * 0.9 + 2))


def test_drafts_grow_with_acceptance_and_shrink_without():
    pace = Pace(CONFIG, 0.5)
    first = pace.length(0)
    for _ in range(20):
        pace.verified(8, 8, position=0)
    grown = pace.length(0)
    for _ in range(20):
        pace.verified(8, 1, position=0)
    assert first < grown
    assert pace.length(0) < grown


def test_stops_within_a_few_useless_drafts_and_probes_later():
    pace = Pace(CONFIG, 0.5)
    drafts = 0
    while pace.length(position=100):
        pace.verified(2, 0, position=100)
        drafts += 1
    assert drafts <= 6
    assert (pace.phase, pace.length(109)) == (Phase.PAUSED, 0)
    assert (pace.length(110), pace.phase) == (2, Phase.PROBING)


def test_a_probe_stays_until_it_is_verified():
    pace = stopped()
    assert [pace.length(p) for p in (110, 111, 300)] == [2, 2, 2]


def test_failed_probes_double_the_pause_up_to_a_limit():
    pace, position, pauses = stopped(), 100, []
    for _ in range(4):
        start = position
        while not pace.length(position):
            position += 1
        pauses.append(position - start)
        pace.verified(2, 0, position)
    assert pauses == [10, 20, 35, 35]


def test_a_probe_with_an_accepted_token_starts_afresh():
    pace = stopped()
    pace.length(110)
    pace.verified(2, 1, position=110)
    assert pace.phase is Phase.DRAFTING
    assert pace.rate == pytest.approx((1 * 0.9 + 1) / (2 * 0.9 + 2))
    while pace.phase is Phase.DRAFTING:
        pace.verified(4, 0, position=200)
    assert [pace.length(209), pace.length(210)] == [0, 2]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"min_match": 0}, "min_match"),
        ({"max_match": 2}, "max_match"),
        ({"max_draft": 0}, "max_draft"),
        ({"decay": 1.0}, "decay"),
        ({"row_cost": -1.0}, "row_cost"),
        ({"max_pause_tokens": 1}, "max_pause_tokens"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        DraftConfig(**wrong)
