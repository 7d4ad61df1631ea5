"""1,000 requests aborted at random moments leave every counter where it began."""

from __future__ import annotations

import queue
import random
from dataclasses import replace

import torch

from engine.core import Engine
from engine.model.stub import StubDecoder
from engine.sample.params import SamplingParams
from engine.schedule.request import Finish, Request

ABORTS = 1000
IN_FLIGHT = 24


def new_request(rng, common):
    length = rng.choice([3, 40, 300])
    shared = rng.randint(0, length)
    prompt = common[:shared] + rng.choices(range(61), k=length - shared + 1)
    tenant = rng.choice(["a", "b"])
    return Request(
        tenant, prompt, rng.randint(1, 100), SamplingParams(temperature=0.0), retain_seconds=rng.choice([0, 60])
    )


def test_a_thousand_aborts_leave_no_trace():
    rng = random.Random(1)
    common = rng.choices(range(61), k=300)
    core = Engine(StubDecoder(61), kv_tokens=900, dtype=torch.float64, step_tokens=64, max_running=8, drafts=True)
    at_start = core.cache.stats()
    mailbox = queue.SimpleQueue()
    core.start(lambda events: [mailbox.put(event) for event in events])
    open_requests, submitted, aborted = [], 0, 0
    try:
        while aborted < ABORTS or open_requests:
            while aborted < ABORTS and len(open_requests) < IN_FLIGHT:
                open_requests.append(new_request(rng, common))
                core.submit(open_requests[-1])
                submitted += 1
                if rng.random() < 0.2:  # perhaps before it has even been seen
                    core.abort(open_requests[-1])
            # Each event is a moment: whoever it hits may be waiting, in mid-prefill, decoding or retracted.
            event = mailbox.get(timeout=60)
            if event.finish is not None:
                assert event.finish in (Finish.ABORT, Finish.LENGTH), event.request.error
                open_requests.remove(event.request)
                aborted += event.finish is Finish.ABORT
            if open_requests and rng.random() < 0.05:
                core.abort(rng.choice(open_requests))
        assert mailbox.empty()
        core.call(lambda cache: cache.check()).result(60)
        after = core.call(lambda cache: cache.stats()).result(60)
        core.call(lambda cache: cache.clear()).result(60)
        emptied = core.call(lambda cache: cache.stats()).result(60)
    finally:
        core.stop()
    assert aborted >= ABORTS
    assert sum(core.counters.finished.values()) == submitted
    assert core.scheduler.idle
    assert core.scheduler.retractions > 0
    assert after.free + after.cached == after.capacity
    assert after.private == after.leased == after.leases == 0
    totals = dict.fromkeys(("query_tokens", "hit_tokens", "evicted_tokens"), 0)
    assert replace(emptied, **totals) == at_start
