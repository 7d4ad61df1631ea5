"""Until a request is long enough, its stop ids are biased against and nothing is drafted for it."""

from __future__ import annotations

import pytest

from engine.cache.manager import KVCache
from engine.draft.memory import DraftMemory
from engine.sample.params import SamplingParams
from engine.schedule.min_tokens import AGAINST, LongRequest
from engine.schedule.scheduler import Scheduler

CYCLE = (1, 2, 3, 4)
LEAST = 6


@pytest.fixture
def request_():
    request = LongRequest(
        namespace="",
        prompt=CYCLE * 8,
        max_tokens=24,
        sampling=SamplingParams(temperature=0.0, logit_bias={9: 50, 5: 1}),
        stop_ids=frozenset({8, 9}),
    )
    request.min_tokens = LEAST
    return request


def test_stop_ids_are_biased_against_until_then(request_):
    """A bias of the client's own comes back after it."""
    for _ in range(LEAST):
        assert request_.sampling.logit_bias == {5: 1, 8: AGAINST, 9: AGAINST}
        assert not request_.draftable
        request_.known.append(1)
    assert request_.sampling.logit_bias == {9: 50, 5: 1}
    assert request_.draftable


def test_drafts_begin_then(request_):
    """All rows of a step share their parameters, so none of them may lie beyond the bound."""
    scheduler = Scheduler(KVCache(1000, 1, debug=True), step_tokens=64, max_running=4, drafts=DraftMemory())
    scheduler.submit(request_)
    drafted = {}
    while request_.generated < 20:
        (work,) = scheduler.plan()
        drafted[request_.generated] = len(work.drafts)
        scheduler.advance([work])
        token = CYCLE[len(request_.known) % len(CYCLE)]
        request_.known.append(token)
        request_.drafter.append([token])
    assert not any(count for generated, count in drafted.items() if generated < LEAST)
    assert any(count for generated, count in drafted.items() if generated >= LEAST)
