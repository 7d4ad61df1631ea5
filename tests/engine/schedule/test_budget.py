"""The tokens of a step settle where it takes the target, whatever the machine costs."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.schedule.budget import DEPTH, FLOOR, STRETCH, Load, Rates, StepBudget

TARGET = 0.2


def seconds(load: Load, base=0.015, stream=0.010, token=0.25e-3) -> float:
    return base + stream * load.streams + load.prompt * token * (1 + load.depth / 4000)


def settled(budget: StepBudget, streams: int, depth: int, **costs) -> Load:
    for load in (Load(0, 512, depth), Load(streams, 0, 0)):
        budget.observe(load, seconds(load, **costs))
    for _ in range(8):
        load = Load(streams, budget.prompt_tokens(streams, depth), depth)
        budget.observe(load, seconds(load, **costs))
    return load


def test_nobody_decodes_then_the_whole_step_is_for_prompts():
    budget = StepBudget(512, TARGET)
    settled(budget, 4, 4000)
    assert budget.prompt_tokens(0, 4000) == 512


def test_without_a_target_or_a_measurement_a_step_is_filled():
    assert StepBudget(512, 0.0).prompt_tokens(3, 0) == 509
    assert StepBudget(512, TARGET).prompt_tokens(3, 0) == 509


@given(
    st.integers(1, 6), st.integers(0, 16_000), st.floats(0.001, 0.02), st.floats(0.001, 0.008), st.floats(1e-5, 1e-3)
)
def test_a_step_takes_the_target_or_has_the_least_or_most_tokens(streams, depth, base, stream, token):
    load = settled(StepBudget(512, TARGET), streams, depth, base=base, stream=stream, token=token)
    took = seconds(load, base, stream, token)
    target = max(TARGET, STRETCH * (base + stream * streams))
    if load.prompt == FLOOR:
        assert took > 0.95 * target
    elif load.prompt == 512 - streams:
        assert took < 1.05 * target
    else:
        assert took == pytest.approx(target, rel=0.05)


def test_with_many_streams_prompts_still_get_their_part():
    load = settled(StepBudget(512, TARGET), 8, 8000)
    assert seconds(load) == pytest.approx(STRETCH * 0.095, rel=0.05)


def test_a_slow_moment_is_forgotten():
    budget = StepBudget(512, TARGET)
    before = settled(budget, 3, 2000).prompt
    budget.observe(Load(3, before, 2000), 5.0)
    assert budget.prompt_tokens(3, 2000) == FLOOR
    for _ in range(25):
        load = Load(3, budget.prompt_tokens(3, 2000), 2000)
        budget.observe(load, seconds(load))
    assert load.prompt == pytest.approx(before, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 512), st.floats(0, 10))), st.integers(0, 64))
def test_there_is_always_a_token_and_never_more_than_fit(steps, streams):
    budget = StepBudget(16, TARGET)
    for decoding, prompt, took in steps:
        budget.observe(Load(decoding, prompt, 100), took)
        assert 1 <= budget.prompt_tokens(streams, 100) <= max(1, 16 - streams)


def test_an_unknown_key_takes_the_next_smaller_then_the_next_larger():
    rates = Rates()
    assert rates.rate(4) is None
    rates.observe(4, 8.0, 1.0)
    rates.observe(64, 80.0, 1.0)
    assert [rates.rate(key) for key in (1, 7, 16, 70, 5000)] == [8.0, 8.0, 8.0, 80.0, 80.0]


def test_deeper_tokens_cost_more():
    budget = StepBudget(512, TARGET)
    shallow, deep = settled(budget, 3, 0).prompt, settled(budget, 3, 8 * DEPTH).prompt
    assert deep < shallow / 2
    assert [budget.prompt_tokens(3, depth) for depth in (0, 8 * DEPTH)] == pytest.approx([shallow, deep], rel=0.05)


def agents(simulation, step_seconds):
    """Four agents with a shared system prompt of 3,200 tokens, four turns each: (total, longest gap, TPOT median)."""
    sim = simulation(step_seconds=step_seconds)
    rng = random.Random(1)

    def text(n):
        return [rng.randrange(997) for _ in range(n)]

    system = text(3200)
    turns = {sim.submit(system + text(512), 64): 0 for _ in range(4)}
    while turns:
        for ended in sim.step():
            turn = turns.pop(ended)
            if turn < 3:
                turns[sim.submit([*ended.known, *text((1400, 850, 320)[turn])], 64)] = turn + 1
    gaps = [line.gaps for line in sim.timelines.values()]
    return sim.now, max(map(max, gaps)), median(sum(g) / len(g) for g in gaps)


def test_the_target_costs_little_and_spares_the_streams(simulation):
    """What docs/architecture.md says of the default."""
    total, longest, tpot = agents(simulation, 0.0)
    total_on, longest_on, tpot_on = agents(simulation, TARGET)
    assert total_on < 1.02 * total
    assert longest_on < 0.72 * longest
    assert tpot_on <= tpot
