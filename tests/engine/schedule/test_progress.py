"""What bounds all waiting: progress in every step, under any memory pressure, and nobody starves."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.schedule.admission import AGEING
from engine.schedule.request import State
from tests.examples import examples


def text(rng, length):
    return [rng.randrange(997) for _ in range(length)]


def steps_alone(request, chunk):
    """At most, if it has to compute everything that it ever knows once more."""
    return -(-(len(request.prompt) + request.max_tokens) // chunk) + request.max_tokens


def expected(request, next_token):
    known = array("q", request.prompt)
    for _ in range(request.max_tokens):
        known.append(next_token(known))
    return known


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_mix_ends_within_the_steps_of_one_after_the_other(simulation, next_token, data):
    page_size = data.draw(st.sampled_from([1, 16]))
    step_tokens = data.draw(st.sampled_from([1, 3, 17, 64, 512]))
    max_running = data.draw(st.sampled_from([1, 3, 16]))
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    common = text(rng, 200)
    largest = data.draw(st.integers(40, 300))
    sim = simulation(
        -(-largest // page_size) * page_size + data.draw(st.sampled_from([0, 16, 160])),
        step_tokens=step_tokens,
        max_running=max_running,
        page_size=page_size,
        step_seconds=data.draw(st.sampled_from([0.0, 0.05])),
        check=True,
    )
    requests, aborted = [], set()
    for _ in range(data.draw(st.integers(1, 12))):
        length = rng.randint(1, largest - 1)
        shared = rng.randint(0, min(length, 200))
        prompt = common[:shared] + text(rng, length - shared)
        requests.append(sim.submit(prompt, rng.randint(1, largest - length)))
        for _ in range(rng.choice([0, 0, 1, 9])):
            watched_step(sim)
        if rng.random() < 0.1:
            gone = rng.choice([request for request in requests if request.state is not State.FINISHED] or [None])
            if gone is not None:
                sim.scheduler.abort(gone)
                aborted.add(gone)
    while not sim.scheduler.idle:
        watched_step(sim)
    chunk = max(1, min(step_tokens - max_running, 128))
    assert sim.steps <= sum(steps_alone(request, chunk) for request in requests)
    for request in requests:
        if request not in aborted:
            assert request.known == expected(request, next_token)
    stats = sim.cache.stats()
    assert (stats.free + stats.cached, stats.leases) == (stats.capacity, 0)


def watched_step(sim):
    """One step, in which the oldest of those who run computes something and those who ran come back in their order."""
    running = [request for request in sim.scheduler.running if request.state is State.RUNNING]
    oldest = running[0] if running else None
    before = oldest.computed if oldest else 0
    sim.step()
    if oldest is not None:
        assert oldest.state is State.FINISHED or oldest.computed > before
    assert all(request.uncomputed == 1 for request in sim.scheduler.running[:-1])
    orders = [request.order for request in sim.scheduler.running]
    assert orders == sorted(orders)
    waiting = [request.order for request in sim.scheduler.waiting]
    retracted = [order for order in waiting if order is not None]
    assert waiting[: len(retracted)] == sorted(retracted)
    assert not orders or not retracted or orders[-1] < retracted[0]


@pytest.mark.parametrize("shared", [0, 100])
@pytest.mark.parametrize("requests", [4, 8, 16])
@pytest.mark.parametrize("output", [20, 100, 200])
@pytest.mark.parametrize("length", [100, 250, 400])
def test_a_pool_for_two_is_no_storm(simulation, shared, requests, output, length):
    """At worst a third is computed again, and a request is retracted once or twice."""
    rng = random.Random(1)
    common = text(rng, shared)
    prompts = [common + text(rng, length - shared) for _ in range(requests)]
    roomy, tight = simulation(10**5), simulation(650)
    for sim in (roomy, tight):
        for prompt in prompts:
            sim.submit(prompt, output)
        sim.finish()
    assert tight.computed <= 1.35 * roomy.computed
    assert tight.scheduler.retractions <= 1.5 * requests
    assert tight.steps <= requests * (output + 1)


def test_a_request_that_needs_the_whole_pool_ends(simulation):
    sim = simulation(300, step_tokens=64)
    rng = random.Random(1)
    small = [sim.submit(text(rng, 50), 60) for _ in range(4)]
    whole = sim.submit(text(rng, 200), 100)
    late = [sim.submit(text(rng, 50), 60) for _ in range(4)]
    sim.finish()
    assert all(request.generated == request.max_tokens for request in (*small, whole, *late))


def test_the_one_who_waits_for_memory_is_not_passed(simulation):
    sim = simulation(300, max_running=8)
    rng = random.Random(2)
    sim.submit(text(rng, 100), 100)
    sim.step()
    large = sim.submit(text(rng, 220), 20)
    sim.step()
    small = [sim.submit(text(rng, 10), 5) for _ in range(5)]
    sim.finish()
    assert all(large.order < request.order for request in small)


@pytest.mark.parametrize("cached", [256, 1024, 3000])
def test_a_stream_of_cache_hits_starves_nobody(simulation, cached):
    """One place, and in each step one more request comes whose prefix is cached: the cold one is next by age."""
    sim = simulation(max_running=1)
    rng = random.Random(3)
    common = text(rng, cached)
    sim.submit(common, 1)
    sim.finish()
    cold = sim.submit(text(rng, 50), 1)
    later = []
    while cold.state is not State.FINISHED:
        later.append((sim.steps, sim.submit([*common, *text(rng, 5)], 1)))
        sim.step()
        assert len(later) < 2 * cached
    passed = [request for _, request in later if request.order is not None and request.order < cold.order]
    assert len(passed) <= cached // AGEING + 1
    assert sim.timelines[cold].ended_step - sim.timelines[cold].arrived_step <= cached // AGEING + 2


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 4]), st.sampled_from([700, 5000]))
def test_nobody_much_later_goes_first(simulation, seed, max_running, kv_tokens):
    """Prompts up to 640 tokens: 10 steps outweigh any cached prefix, also while memory is short."""
    sim = simulation(kv_tokens, max_running=max_running, step_tokens=64)
    rng = random.Random(seed)
    common = text(rng, 600)
    sim.submit(common, 1)
    sim.finish()
    came = []
    for _ in range(60):
        hit = rng.random() < 0.7
        prompt = [*common[: rng.randint(500, 600)], *text(rng, 20)] if hit else text(rng, rng.randint(1, 200))
        came.append((sim.steps, sim.submit(prompt, rng.randint(1, 10))))
        for _ in range(rng.randint(0, 3)):
            if not sim.scheduler.idle:
                sim.step()
    sim.finish()
    unrelated = [(step, request) for step, request in came if list(request.prompt[:500]) != common[:500]]
    for step, request in unrelated:
        assert all(request.order < other.order for at, other in came if at > step + 640 // AGEING)


def test_no_cache_hit_passes_one_who_ran_before(simulation):
    """A newcomer with 3,000 cached tokens would be first by score, and would fit."""
    sim = simulation(3200)
    rng = random.Random(5)
    common = text(rng, 3000)
    sim.submit(common, 100)
    for _ in range(8):
        sim.step()
    second = sim.submit(text(rng, 150), 100)
    while not second.retracted:
        watched_step(sim)
    hit = sim.submit([*common[:2990], 1], 1)
    while not sim.scheduler.idle:
        watched_step(sim)
        assert not (second.retracted and hit.order is not None)
