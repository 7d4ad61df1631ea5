"""Clients that do everything at once to an engine with too little memory, for a minute or for twenty.

The stub model makes every answer a pure function of the request, so each one is checked, and at the end the books
must show nothing but free and cached memory.
"""

from __future__ import annotations

import queue
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from engine.cache.manager import KVCache
from engine.core import Engine
from engine.model.stub import StubDecoder
from engine.sample.params import SamplingParams
from engine.schedule.request import Finish, Request

CLIENTS = 8
KV_TOKENS = 640
LONGEST = 400  # prompt and answer: two of these don't fit together
PATIENCE = 60.0


class Client:
    """An agent: turn after turn on a growing conversation, with everything that the HTTP server lets it do."""

    def __init__(self, seed, engine, mailboxes, new_grammar):
        self.rng = random.Random(seed)
        self.engine = engine
        self.mailboxes = mailboxes
        self.new_grammar = new_grammar
        self.inbox = queue.SimpleQueue()
        self.seen = Counter()
        self.tenant = f"tenant {seed % 2}"
        # Two clients of a tenant begin with the same text: they share, wait for each other and draft from each other.
        self.system = random.Random(seed % 4).choices(range(61), k=60)
        self.history = list(self.system)

    def run(self, until, check):
        with torch.inference_mode():
            while time.monotonic() < until:
                self.turn(check)
        return self.seen

    def turn(self, check):
        rng = self.rng
        if len(self.history) > LONGEST - 100 or rng.random() < 0.2:
            self.history = self.system[: rng.randint(1, 60)]
        self.history += rng.choices(range(61), k=rng.randint(1, 30))
        siblings = [self.request() for _ in range(rng.choice([1, 1, 1, 2, 4]))]
        self.look_after_the_cache()
        self.answer(siblings, check)
        whole = [request for request in siblings if request.finish is Finish.LENGTH]
        if whole:
            self.history = list(rng.choice(whole).known)

    def request(self):
        """One choice of an answer: greedy or sampled, free or constrained, some to be retained."""
        rng = self.rng
        greedy = rng.random() < 0.6
        sampling = (
            SamplingParams(temperature=0.0) if greedy else SamplingParams(temperature=0.8, seed=rng.randrange(99))
        )
        return Request(
            namespace=self.tenant,
            prompt=tuple(self.history),
            max_tokens=rng.randint(1, LONGEST - len(self.history)) if rng.random() < 0.2 else rng.randint(1, 40),
            sampling=sampling,
            grammar=self.new_grammar() if rng.random() < 0.25 else None,
            retain_seconds=rng.choice([0.0, 0.0, 5.0]),
        )

    def answer(self, requests, check):
        """Submit them, abort some at a random event, and check what each of them said."""
        rng = self.rng
        open_requests = set(requests)
        for request in requests:
            self.mailboxes[request] = self.inbox
            self.engine.submit(request)
            if rng.random() < 0.05:
                self.engine.abort(request)
        while open_requests:
            event = self.inbox.get(timeout=PATIENCE)
            if event.finish is not None:
                open_requests.discard(event.request)
                del self.mailboxes[event.request]
            if open_requests and rng.random() < 0.008:
                self.engine.abort(rng.choice(sorted(open_requests, key=lambda request: request.number)))
        for request in requests:
            assert request.error is None
            self.seen[request.finish] += 1
            self.seen["constrained"] += request.grammar is not None
            self.seen["siblings"] += len(requests) > 1
            check(request)

    def look_after_the_cache(self):
        """What a gateway asks for now and then."""
        rng, tenant, ids = self.rng, self.tenant, list(self.history)
        if rng.random() < 0.1:
            self.engine.call(lambda cache: cache.retain(tenant, ids, rng.choice([1.0, 60.0])))
        if rng.random() < 0.1:
            self.engine.call(lambda cache: cache.release(tenant, ids))
        if rng.random() < 0.02:
            self.engine.call(KVCache.check).result(PATIENCE)
        if rng.random() < 0.005:
            self.engine.call(KVCache.clear)


@pytest.mark.parametrize(
    ("seconds", "page_size"),
    [
        (30, 1),
        (30, 16),
        pytest.param(1200, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1400)]),
    ],
)
def test_full_memory_pressure(seconds, page_size, stub_output, new_grammar, vocabulary):
    engine = Engine(
        StubDecoder(vocabulary),
        kv_tokens=KV_TOKENS,
        dtype=torch.float64,
        page_size=page_size,
        step_tokens=64,
        step_seconds=0.01,
        max_running=16,
        drafts=True,
    )
    mailboxes = {}
    engine.start(lambda events: [mailboxes[event.request].put(event) for event in events])
    clients = [Client(seed, engine, mailboxes, new_grammar) for seed in range(CLIENTS)]

    def check(request):
        said = list(request.output)
        how = request.sampling
        constrained = request.grammar is not None
        whole = stub_output(request.prompt, request.max_tokens, how.temperature, how.seed, constrained)
        assert said == whole[: len(said)]
        assert request.finish is Finish.ABORT or len(said) == request.max_tokens

    until = time.monotonic() + seconds
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            seen = sum((future.result() for future in [pool.submit(c.run, until, check) for c in clients]), Counter())
        engine.call(KVCache.check).result(PATIENCE)
        stats = engine.call(KVCache.stats).result(PATIENCE)
    finally:
        engine.stop()
    assert stats.free + stats.cached == stats.capacity
    assert stats.private == stats.leased == stats.leases == 0
    assert engine.scheduler.idle
    assert not engine.scheduler.waiting
    assert not mailboxes
    assert engine.scheduler.retractions > 0
    assert stats.evicted_tokens > KV_TOKENS
    assert engine.counters.accepted_tokens > 0
    assert min(seen[kind] for kind in (Finish.LENGTH, Finish.ABORT, "constrained", "siblings")) > 0
    assert sum(engine.counters.finished.values()) == seen[Finish.LENGTH] + seen[Finish.ABORT]
