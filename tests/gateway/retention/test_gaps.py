"""Quantiles of what tools took: near the true ones, newer durations first, bounded."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.retention.gaps import LEAST_S, MOST_S, STEP, Durations, Gaps

SECONDS = st.floats(0, 10_000, allow_nan=False)


@given(st.lists(SECONDS, min_size=1, max_size=40))
def test_the_longest_of_a_few_is_within_a_class(values):
    durations = Durations()
    for value in values:
        durations.add(value)
    longest = min(MOST_S, max(LEAST_S, max(values)))
    assert longest * 0.999 <= durations.quantile(1.0) <= min(MOST_S, longest * STEP * 1.001)
    assert durations.quantile(0.1) <= durations.quantile(0.9)


def test_nine_of_ten_are_covered():
    durations = Durations()
    for index in range(50):
        durations.add(60.0 if index % 10 == 9 else 2.0)
    assert durations.quantile(0.8) < 3
    assert durations.quantile(0.99) > 50


def test_what_a_tool_takes_now_counts_more_than_what_it_took():
    durations = Durations()
    for value in [300.0] * 50 + [1.0] * 150:
        durations.add(value)
    assert durations.quantile(0.9) < 2


@pytest.mark.parametrize("odd", [0.0, -1.0, math.inf, 1e30])
def test_odd_durations_stay_within_bounds(odd):
    durations = Durations()
    durations.add(odd)
    assert LEAST_S <= durations.quantile(0.9) <= MOST_S


def test_tools_that_nobody_calls_are_forgotten():
    gaps = Gaps(limit=2)
    for key in ("a", "b", "a", "c"):
        gaps.add(key, 1.0)
    assert gaps.quantile("b", 0.9) is None
    assert gaps.quantile("a", 0.9) is not None
    assert len(gaps) == 2
