"""Learned prefill rates: near the truth under noise, within bounds whatever is measured."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.placement.rates import FASTEST, MAX_REPLICAS, SLOWEST, Rates


def learned(samples, guess=2000.0):
    rates = Rates(guess)
    for tokens, seconds in samples:
        rates.learn("a", "e", tokens, seconds)
    return rates.rate("a", "e")


def test_nothing_measured_is_the_guess():
    assert Rates(1234).rate("a", "e") == pytest.approx(1234)


@pytest.mark.parametrize("guess", [2000, 8000, 32_000])
def test_the_guess_is_forgotten(guess):
    draw = random.Random(1)
    samples = []
    for _ in range(100):
        tokens = draw.randint(300, 20_000)
        samples.append((tokens, tokens / 8000 * draw.lognormvariate(0, 0.3)))
    assert learned(samples, guess) == pytest.approx(8000, rel=0.1)


def test_a_few_wild_measurements_decide_nothing():
    samples = [(4000, 0.5)] * 100
    for position in range(0, 100, 10):
        samples[position] = (4000, 600.0)
    assert learned(samples) == pytest.approx(8000, rel=0.1)


def test_prompts_computed_side_by_side_count_by_their_sum():
    """Four first bytes at once: all the time seems to be the first one's."""
    assert learned([(2000, 1.0), (2000, 0.0), (2000, 0.0), (2000, 0.0)] * 10) == pytest.approx(8000, rel=0.05)


def test_a_replica_that_changes_is_learned_anew():
    assert learned([(4000, 0.5)] * 300 + [(4000, 2.0)] * 128) == pytest.approx(2000, rel=0.1)


def test_short_prefills_tell_nothing():
    assert learned([(100, 1.0)] * 50) == pytest.approx(2000)


def test_a_new_replica_or_epoch_begins_with_what_its_like_have_learned():
    rates = Rates(2000)
    for url, rate in (("a", 7000), ("b", 8000), ("c", 9000)):
        for _ in range(200):
            rates.learn(url, "e", 4000, 4000 / rate)
    assert rates.rate("new", "e") == pytest.approx(8000, rel=0.1)
    assert rates.rate("a", "another boot") == pytest.approx(8000, rel=0.1)


anything = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), anything), max_size=60), anything)
def test_rates_are_bounded_whatever_is_measured(samples, guess):
    assert SLOWEST * 0.999 <= learned(samples, guess) <= FASTEST * 1.001


def test_memory_is_bounded():
    rates = Rates(2000)
    for number in range(MAX_REPLICAS + 50):
        rates.learn(f"r{number}", "e", 4000, 0.5)
    assert len(rates) == MAX_REPLICAS
