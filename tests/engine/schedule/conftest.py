"""The real scheduler and cache without a model: steps take what a cost model says, tokens are a hash of the text."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import pytest

from engine.cache.manager import KVCache
from engine.sample.params import SamplingParams
from engine.schedule.request import Finish, Request, State
from engine.schedule.scheduler import Scheduler
from engine.schedule.step import Work


def hashed_token(known) -> int:
    """A pure function of all tokens before it."""
    return zlib.crc32(known.tobytes()) % 997


def step_seconds(works: list[Work]) -> float:
    """A small model on a laptop: 15 ms a step, 10 ms a stream, 0.25 ms a prompt token and as much again at 4,000."""
    seconds = 0.015
    for work in works:
        depth = work.start + work.count / 2
        seconds += 0.010 if work.count == 1 else work.count * (0.25e-3 + 0.25e-3 * depth / 4000)
    return seconds


@dataclass(eq=False)
class Timeline:
    """When one request came and when each of its tokens did, in seconds and in steps."""

    request: Request
    arrived: float
    arrived_step: int
    tokens: list[float] = field(default_factory=list)
    ended_step: int = 0

    @property
    def ttft(self) -> float:
        return self.tokens[0] - self.arrived

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.tokens, self.tokens[1:], strict=False)]


class Simulation:
    """Drives plan and advance as the engine does, in simulated time."""

    def __init__(self, kv_tokens=10**6, *, step_tokens=512, max_running=64, step_seconds=0.0, page_size=1, check=False):
        self.now = 0.0
        self.cache = KVCache(kv_tokens, page_size, clock=lambda: self.now, debug=check)
        self.scheduler = Scheduler(
            self.cache, step_tokens=step_tokens, max_running=max_running, step_seconds=step_seconds
        )
        self.timelines: dict[Request, Timeline] = {}
        self.steps = self.computed = 0

    def submit(self, prompt, max_tokens=8, **options) -> Request:
        request = Request("", prompt, max_tokens, SamplingParams(temperature=0.0), **options)
        self.timelines[request] = Timeline(request, self.now, self.steps)
        self.scheduler.submit(request)
        return request

    def step(self) -> list[Request]:
        """One step; those that ended with it."""
        self.scheduler.fence()
        works = self.scheduler.plan()
        if not works:
            assert self.scheduler.idle, "nothing is computed, though somebody waits for it"
            return []
        assert sum(work.total for work in works) <= self.scheduler.budget.step_tokens
        self.steps += 1
        self.computed += sum(work.count for work in works)
        seconds = step_seconds(works)
        self.now += seconds
        self.scheduler.advance(works)
        self.scheduler.took(works, seconds)
        return [work.request for work in works if work.samples and self._sample(work.request)]

    def finish(self, steps=1_000_000) -> None:
        for _ in range(steps):
            if self.scheduler.idle:
                return
            self.step()
        raise AssertionError(f"not done after {steps} steps")

    def _sample(self, request: Request) -> bool:
        request.known.append(hashed_token(request.known))
        timeline = self.timelines[request]
        timeline.tokens.append(self.now)
        if request.state is State.RUNNING and request.generated >= request.max_tokens:
            self.scheduler.retire(request, Finish.LENGTH)
            timeline.ended_step = self.steps
        return request.state is State.FINISHED


@pytest.fixture(scope="session")
def simulation() -> type[Simulation]:
    return Simulation


@pytest.fixture(scope="session")
def next_token():
    return hashed_token
