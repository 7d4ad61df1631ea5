"""The engine's core over the stub model: one wrong KV slot anywhere would change an output."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.model.stub import StubDecoder
from engine.sample.params import SamplingParams
from engine.schedule.admission import SIBLING_TOKENS, common_prefix
from engine.schedule.request import Finish, Request, State

GREEDY = SamplingParams(temperature=0.0)


def engine(kv_tokens=4096, vocab_size=997, **options):
    decoder = StubDecoder(vocab_size)
    return Engine(decoder, kv_tokens=kv_tokens, dtype=torch.float64, check_every_step=True, **options)


def request(prompt, max_tokens=8, **options):
    return Request(
        namespace=options.pop("namespace", ""),
        prompt=prompt,
        max_tokens=max_tokens,
        sampling=options.pop("sampling", GREEDY),
        **options,
    )


def finish(core):
    for _ in range(10_000):
        core.step()
        if core.scheduler.idle:
            return
    raise AssertionError("the engine makes no progress")


def alone(prompt, max_tokens=8, vocab_size=997, sampling=GREEDY):
    """The output of a fresh engine that computes the prompt in one step, without drafts."""
    core = engine(step_tokens=4096, vocab_size=vocab_size)
    it = request(prompt, max_tokens, sampling=sampling)
    core.scheduler.submit(it)
    finish(core)
    return list(it.output)


def settled(core):
    stats = core.cache.stats()
    assert stats.private == stats.leased == stats.leases == 0
    assert stats.free + stats.cached == stats.capacity


PROMPT = random.Random(1).choices(range(997), k=150)


def test_the_stub_sees_every_token():
    changed = [*PROMPT]
    changed[3] += 1
    assert alone(PROMPT) != alone(changed)
    assert alone(PROMPT) != alone([PROMPT[1], PROMPT[0], *PROMPT[2:]])


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("step_tokens", [1, 7, 64, 4096])
def test_chunk_size_changes_nothing(page_size, step_tokens):
    core = engine(step_tokens=step_tokens, page_size=page_size)
    it = request(PROMPT)
    core.scheduler.submit(it)
    finish(core)
    assert list(it.output) == alone(PROMPT)
    settled(core)


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_second_run_is_cached_and_equal(page_size):
    core = engine(page_size=page_size)
    first, second = request(PROMPT, 20), request(PROMPT, 20)
    for it in (first, second):
        core.scheduler.submit(it)
        finish(core)
    assert first.output == second.output
    assert first.cached == 0
    assert second.cached == (len(PROMPT) - 1) // page_size * page_size
    settled(core)


def test_the_next_turn_finds_everything_but_the_last_token():
    core = engine()
    turn = request(PROMPT, 20)
    core.scheduler.submit(turn)
    finish(core)
    follow_up = request([*turn.known, 5, 6, 7])
    core.scheduler.submit(follow_up)
    finish(core)
    assert follow_up.cached == len(turn.known) - 1
    assert list(follow_up.output) == alone([*turn.known, 5, 6, 7])


def test_siblings_compute_their_prefix_once():
    core = engine(step_tokens=64)
    siblings = [request([*PROMPT, i]) for i in range(16)]
    for it in siblings:
        core.scheduler.submit(it)
    finish(core)
    assert all(len(PROMPT) - it.cached < SIBLING_TOKENS for it in siblings[1:])
    assert [list(it.output) for it in siblings] == [alone([*PROMPT, i]) for i in range(16)]
    settled(core)


def test_tenants_share_nothing():
    core = engine()
    for tenant in ("a", "b"):
        it = request(PROMPT, namespace=tenant)
        core.scheduler.submit(it)
        finish(core)
        assert it.cached == 0


def test_memory_pressure_retracts_and_recomputes():
    core = engine(kv_tokens=400, step_tokens=64)
    prompts = [[i, *PROMPT[:90]] for i in range(8)]
    requests = [request(prompt, 60) for prompt in prompts]
    for it in requests:
        core.scheduler.submit(it)
    finish(core)
    assert core.scheduler.retractions > 0
    assert [list(it.output) for it in requests] == [alone(prompt, 60) for prompt in prompts]
    settled(core)


def test_abort_in_mid_prefill_and_mid_decode_leaks_nothing():
    core = engine(step_tokens=32)
    early, late, other = request(PROMPT, 64), request([*PROMPT[:40], 1], 64), request(PROMPT[:30], 10)
    core.scheduler.submit(early)
    core.step()
    core.scheduler.abort(early)
    core.scheduler.submit(late)
    core.scheduler.submit(other)
    for _ in range(5):
        core.step()
    core.scheduler.abort(late)
    core.scheduler.abort(late)
    finish(core)
    assert (early.finish, late.finish, other.finish) == (Finish.ABORT, Finish.ABORT, Finish.LENGTH)
    assert list(other.output) == alone(PROMPT[:30], 10)
    settled(core)


def test_a_held_session_never_blocks_a_new_request():
    core = engine(kv_tokens=128)
    for i in range(3):
        it = request([i, *PROMPT[:30]], 4, retain_seconds=600)
        core.scheduler.submit(it)
        finish(core)
    big = request(PROMPT[:100], 10)
    core.scheduler.submit(big)
    finish(core)
    assert list(big.output) == alone(PROMPT[:100], 10)


def test_end_of_sequence_ends_the_request_and_is_not_text():
    eos = alone(PROMPT, 3)[1]
    core = engine()
    it = request(PROMPT, 50, stop_ids=frozenset({eos}))
    core.scheduler.submit(it)
    finish(core)
    assert it.finish is Finish.STOP
    assert it.generated == 2


@pytest.mark.parametrize("page_size", [1, 16])
def test_drafts_change_no_output_and_skip_steps(page_size):
    core = engine(vocab_size=2, drafts=True, page_size=page_size)
    requests = [request([i % 2 for i in range(40)] + [i], 120) for i in range(3)]
    for it in requests:
        core.scheduler.submit(it)
    finish(core)
    assert [list(it.output) for it in requests] == [alone(list(it.prompt), 120, 2) for it in requests]
    assert 0 < core.counters.accepted_tokens < core.counters.drafted_tokens
    assert core.counters.steps < 122
    assert core.counters.generated_tokens == 360
    settled(core)


def test_drafts_see_what_earlier_requests_generated():
    core = engine(drafts=True)
    for _ in range(2):
        it = request(PROMPT, 60)
        before = core.counters.steps
        core.scheduler.submit(it)
        finish(core)
        steps = core.counters.steps - before
    assert list(it.output) == alone(PROMPT, 60)
    assert steps < 30


def test_drafts_never_pass_the_token_limit_or_a_stop():
    for limit in range(1, 12):
        core = engine(drafts=True)
        core.scheduler.drafts.remember("", alone(PROMPT, 20))
        it = request(PROMPT, limit)
        core.scheduler.submit(it)
        finish(core)
        assert list(it.output) == alone(PROMPT, limit)
        settled(core)


def test_a_failing_step_ends_its_requests_and_the_engine_goes_on():
    core = engine()
    core.decoder.forward, whole = lambda *_: 1 / 0, core.decoder.forward
    it = request(PROMPT)
    core.scheduler.submit(it)
    delivered = []
    core._deliver = delivered.extend
    core._guarded_step()
    assert [event.finish for event in delivered] == [Finish.ERROR]
    core.decoder.forward = whole
    again = request(PROMPT)
    core.scheduler.submit(again)
    finish(core)
    assert list(again.output) == alone(PROMPT)
    settled(core)


def test_a_dead_engine_is_known_to_be_dead():
    core = engine()
    assert not core.alive
    core.start(lambda events: None)
    assert core.alive
    core.stop()
    assert not core.alive


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_mix_equals_alone(data):
    """Random prompts with shared prefixes, siblings, arrivals, aborts, budgets, page sizes and pool sizes."""
    vocab_size = data.draw(st.sampled_from([2, 3, 997]))  # a tiny one repeats itself, so that drafts are made
    core = engine(
        vocab_size=vocab_size,
        drafts=data.draw(st.booleans()),
        kv_tokens=data.draw(st.sampled_from([128, 160, 320, 2048])),
        step_tokens=data.draw(st.sampled_from([1, 3, 17, 64, 512])),
        step_seconds=data.draw(st.sampled_from([0.0, 1e-4])),
        page_size=data.draw(st.sampled_from([1, 16])),
        max_running=data.draw(st.sampled_from([1, 3, 16])),
    )
    requests, aborted = [], set()
    for _ in range(data.draw(st.integers(1, 6))):
        siblings = data.draw(turn())
        requests += siblings
        for it in siblings:
            core.scheduler.submit(it)
        for _ in range(data.draw(st.integers(0, 4))):
            core.step()
        it = siblings[-1]
        if data.draw(st.integers(0, 5)) == 0 and it.state is not State.FINISHED:
            core.scheduler.abort(it)
            aborted.add(it)
    finish(core)
    for it in requests:
        output = alone(list(it.prompt), it.max_tokens, vocab_size, it.sampling)
        assert list(it.output) == (output[: it.generated] if it in aborted else output)
    settled(core)


@st.composite
def turn(draw):
    """The choices (`n`) of one call, greedy or sampled."""
    shared = draw(st.integers(0, 60))
    own = draw(st.lists(st.integers(0, 996), min_size=1, max_size=30))
    sampling = draw(st.sampled_from([GREEDY, SamplingParams(temperature=1.0, seed=7)]))
    limit, retain = draw(st.integers(1, 20)), draw(st.sampled_from([0.0, 60.0]))
    return [
        request([*PROMPT[:shared], *own], limit, sampling=sampling.for_choice(index), retain_seconds=retain)
        for index in range(draw(st.sampled_from([1, 1, 2, 4])))
    ]


@given(st.lists(st.integers(0, 2), max_size=300), st.integers(0, 300), st.lists(st.integers(0, 2), max_size=9))
def test_common_prefix(a, cut, tail):
    b = [*a[:cut], *tail]
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def test_a_call_that_nobody_waits_for_any_more_is_skipped():
    core = engine()
    dropped = core.call(lambda cache: cache.clear())
    assert dropped.cancel()
    core.start(lambda events: None)
    assert core.call(lambda cache: cache.capacity).result(10) == 4096
    core.stop()
