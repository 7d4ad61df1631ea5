"""`n` > 1 through the engine: the choices are requests with one prompt, which is computed once."""

from __future__ import annotations

import random

import pytest
import torch

from engine.core import Engine
from engine.model.stub import StubDecoder
from engine.sample.params import SamplingParams
from engine.schedule.admission import SIBLING_TOKENS
from engine.schedule.request import Request

PROMPT = random.Random(5).choices(range(997), k=150)
CHOICES, LENGTH = 4, 8


def run(requests, page_size, step_tokens=512):
    core = Engine(
        StubDecoder(997), kv_tokens=4096, dtype=torch.float64, page_size=page_size, step_tokens=step_tokens,
        check_every_step=True,
    )  # fmt: skip
    for request in requests:
        core.scheduler.submit(request)
    while not core.scheduler.idle:
        core.step()
    return core


def choices(count):
    params = SamplingParams(temperature=1.0, seed=3)
    return [Request("", PROMPT, LENGTH, params.for_choice(choice)) for choice in range(count)]


@pytest.mark.parametrize("page_size", [1, 16])
def test_the_prompt_is_computed_once(page_size):
    """All but the part of a page that whole pages can't share, and the last token, which is always computed."""
    several = choices(CHOICES)
    core = run(several, page_size)
    again = len(PROMPT) - (len(PROMPT) - 1) // page_size * page_size
    assert again <= page_size
    assert core.counters.computed_tokens == len(PROMPT) + (CHOICES - 1) * again + CHOICES * (LENGTH - 1)
    assert [it.cached for it in several] == [0] + [len(PROMPT) - again] * (CHOICES - 1)


@pytest.mark.parametrize("page_size", [1, 16])
def test_in_chunks_less_than_what_a_step_of_waiting_is_worth_is_computed_again(page_size):
    several = choices(CHOICES)
    core = run(several, page_size, step_tokens=64)
    once = len(PROMPT) + CHOICES * (LENGTH - 1)
    assert core.counters.computed_tokens < once + (CHOICES - 1) * (SIBLING_TOKENS + page_size)


@pytest.mark.parametrize("page_size", [1, 16])
def test_each_choice_is_what_it_would_be_alone(page_size):
    several = choices(CHOICES)
    run(several, page_size)
    for number, it in enumerate(several):
        alone = choices(CHOICES)[number]
        run([alone], page_size=1)
        assert it.output == alone.output
    assert len({tuple(it.output) for it in several}) > 1
