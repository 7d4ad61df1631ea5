"""Simulated replicas: a cache of blocks that forgets the least recently used, prefill in turn, decode beside it."""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.routing_trace import BLOCK, Prompt


@dataclass(frozen=True)
class Engine:
    """How the replicas compute."""

    rate: float = 8000.0
    """Prefill tokens per second."""
    step_s: float = 0.02
    """One decode step."""
    overhead_s: float = 0.0
    """Of each request, before its prefill."""
    noise: float = 0.0
    """Spread (sigma, log-normal with mean 1) of a prefill's time."""
    prefill_slowdown: float = 0.0
    """Part by which each running request lengthens prefill."""
    decode_slowdown: float = 0.0
    """Part by which each running request lengthens a decode step."""
    uneven: tuple[float, ...] = (1.0,)
    """Factors of the rate; the replicas take them in turn."""


EVEN = Engine()
ROUGH = Engine(overhead_s=0.015, noise=0.25, prefill_slowdown=0.01, decode_slowdown=0.03)
UNEVEN = Engine(overhead_s=0.015, noise=0.25, prefill_slowdown=0.01, decode_slowdown=0.03, uneven=(1.0, 1.0, 0.5, 1.5))


class BlockCache:
    """Leaves go first: of a prompt's blocks the last counts as the least recently used."""

    def __init__(self, tokens: int) -> None:
        self._limit = tokens // BLOCK
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def match(self, prompt: Prompt) -> int:
        """Tokens of the prompt that are here; one is always computed."""
        count = 0
        for block in prompt.blocks:
            if block not in self._blocks:
                break
            count += 1
        return min(count * BLOCK, prompt.tokens - 1)

    def insert(self, prompt: Prompt) -> None:
        blocks = self._blocks
        for block in reversed(prompt.blocks):
            blocks[block] = None
            blocks.move_to_end(block)
        while len(blocks) > self._limit:
            blocks.popitem(last=False)


@dataclass
class SimReplica:
    cache: BlockCache
    rate: float
    index: int
    busy_until: float = 0.0
    waiting: dict[int, int] = field(default_factory=dict)
    """Tokens to compute, by the number of the request, until its first byte."""
    running: dict[int, int] = field(default_factory=dict)
    """Prompt tokens of requests that are not over."""
    computed: int = 0
    served: int = 0

    @property
    def waiting_tokens(self) -> int:
        return sum(self.waiting.values())


class Policy(Protocol):
    def choose(self, number: int, prompt: Prompt, now: float) -> int:
        """The index of a replica."""
        ...

    def first_byte(self, number: int, now: float) -> None: ...

    def ended(self, number: int, cached: int, now: float) -> None: ...


@dataclass(frozen=True)
class Served:
    replica: int
    cached: int
    ttft: float


class Fleet:
    def __init__(self, engine: Engine, capacity: int, count: int, seed: int) -> None:
        self.engine = engine
        rates = [engine.rate * engine.uneven[index % len(engine.uneven)] for index in range(count)]
        self.replicas = [SimReplica(BlockCache(capacity), rate, index) for index, rate in enumerate(rates)]
        self.capacity = capacity
        self._draw = random.Random(seed)

    def run(self, prompts: Sequence[Prompt], policy: Policy) -> list[Served]:
        served: list[Served] = []
        coming: list[tuple[float, int, int]] = []
        """First bytes (0) and ends (1): time, kind, number of the request."""
        for number, prompt in enumerate(prompts):
            while coming and coming[0][0] <= prompt.at:
                self._happens(heapq.heappop(coming), served, policy)
            noise = self._draw.lognormvariate(-(self.engine.noise**2) / 2, self.engine.noise)
            replica = self.replicas[policy.choose(number, prompt, prompt.at)]
            first, end = self._serve(replica, number, prompt, noise)
            cached = prompt.tokens - replica.waiting[number]
            served.append(Served(replica.index, cached, first - prompt.at))
            heapq.heappush(coming, (first, 0, number))
            heapq.heappush(coming, (end, 1, number))
        return served

    def _serve(self, replica: SimReplica, number: int, prompt: Prompt, noise: float) -> tuple[float, float]:
        engine, beside = self.engine, len(replica.running) - len(replica.waiting)
        computed = prompt.tokens - replica.cache.match(prompt)
        replica.cache.insert(prompt)
        slower = 1 + engine.prefill_slowdown * beside
        takes = engine.overhead_s + noise * computed / replica.rate * slower
        replica.busy_until = first = max(prompt.at, replica.busy_until) + takes
        replica.waiting[number] = computed
        replica.running[number] = prompt.tokens
        replica.computed += computed
        replica.served += 1
        step = engine.step_s * (1 + engine.decode_slowdown * beside)
        return first, first + step * prompt.output

    def _happens(self, event: tuple[float, int, int], served: Sequence[Served], policy: Policy) -> None:
        now, kind, number = event
        replica = self.replicas[served[number].replica]
        if kind == 0:
            del replica.waiting[number]
            policy.first_byte(number, now)
        else:
            del replica.running[number]
            policy.ended(number, served[number].cached, now)
