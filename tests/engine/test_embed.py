"""Embeddings beside the engine's steps: what is computed, in which pieces, and that nobody waits long for it."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention.choose import best_attention
from engine.attention.kv import KVTensors
from engine.core import Engine
from engine.embed import EmbeddingJob, MeanPooling
from engine.model import load_decoder
from engine.model.stub import StubDecoder, _digits
from engine.sample.params import SamplingParams
from engine.schedule.request import Request
from engine.weights.checkpoint import open_checkpoint

STEP = 32
TEXT = [(7 * i) % 997 for i in range(300)]


def engine(kv_tokens=512):
    return Engine(StubDecoder(997), kv_tokens=kv_tokens, dtype=torch.float64, step_tokens=STEP, check_every_step=True)


@pytest.fixture
def started():
    core = engine()
    core.ended = threading.Event()
    core.start(lambda events: core.ended.set() if any(event.finish for event in events) else None)
    yield core
    core.stop()


def direction(hidden):
    mean = hidden.double().mean(0)
    return (mean / mean.norm()).float()


def of_stub(ids):
    """By the formula, without attention: the stub's hidden state is the sum of the digits so far."""
    ids = torch.tensor(ids)
    return direction(_digits(ids, torch.arange(len(ids))).cumsum(0))


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)  # leaves the interpreter to the engine


# One text


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 996), min_size=1, max_size=60), st.lists(st.integers(1, 20), max_size=8))
def test_pieces_change_nothing(ids, cuts):
    decoder = StubDecoder(997)
    pooling = MeanPooling(decoder, best_attention(KVTensors(decoder.config, 1, torch.float64)), ids)
    for count in [*cuts, len(ids)]:
        if pooling.left:
            pooling.add(min(count, pooling.left))
    assert pooling.left == 0
    torch.testing.assert_close(pooling.vector(), of_stub(ids), rtol=1e-6, atol=1e-7)


@pytest.fixture(scope="module")
def small_llama(tmp_path_factory):
    """(our decoder, transformers' model), with heads that the C kernel can serve."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=131, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=256,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter.data, mean=0.1, std=0.15)
    folder = tmp_path_factory.mktemp("llama")
    model.save_pretrained(folder)
    return load_decoder(open_checkpoint(folder), torch.float32), model


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("piece", [1, 17, 60])
def test_it_is_the_mean_of_transformers_last_hidden_state(small_llama, kernels, piece):
    decoder, model = small_llama
    ids = torch.randint(0, 131, (60,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = direction(model.model(ids[None]).last_hidden_state[0])
    pooling = MeanPooling(decoder, best_attention(KVTensors(decoder.config, 1, torch.float32), kernels), ids.tolist())
    while pooling.left:
        pooling.add(min(piece, pooling.left))
    torch.testing.assert_close(pooling.vector(), expected, rtol=1e-3, atol=1e-4)


# Between steps


def test_one_piece_of_the_oldest_text_at_a_time():
    core = engine()
    first, second = EmbeddingJob(TEXT[:70]), EmbeddingJob(TEXT[:5])
    core.embeddings.add(first)
    core.embeddings.add(second)
    seen = []
    while not core.embeddings.idle:
        core.embeddings.advance(0)
        seen.append((core.embeddings.tokens, first.vector.done(), second.vector.done()))
    assert seen == [(32, False, False), (64, False, False), (70, True, False), (75, True, True)]
    torch.testing.assert_close(torch.tensor(first.vector.result()), of_stub(TEXT[:70]))
    torch.testing.assert_close(torch.tensor(second.vector.result()), of_stub(TEXT[:5]))


def test_pieces_are_smaller_next_to_streams():
    """A step with streams is measured out by the time that it takes; so is a piece beside them."""
    core = Engine(
        StubDecoder(997), kv_tokens=512, dtype=torch.float64, step_tokens=512, step_seconds=1e-9, max_running=4
    )
    core.embeddings.add(EmbeddingJob([1] * 600))
    core.embeddings.advance(1)
    assert core.embeddings.tokens == 511  # nothing is known yet
    core.embeddings.add(EmbeddingJob([1] * 600))
    core.embeddings.advance(1)
    core.embeddings.advance(1)
    assert core.embeddings.tokens == 600 + core.scheduler.budget.floor
    core.embeddings.advance(0)
    assert core.embeddings.tokens == 1200


def test_a_stream_goes_on_and_the_pool_is_left_alone():
    """The texts have more tokens than the pool."""

    def output(texts):
        core = engine(kv_tokens=128)
        request = Request("t", TEXT[:40], 12, SamplingParams(temperature=0.0))
        core.scheduler.submit(request)
        jobs = [EmbeddingJob(text) for text in texts]
        for job in jobs:
            core.embeddings.add(job)
        generated = []
        while not core.scheduler.idle:
            core.step()
            generated.append(request.generated)
            core.embeddings.advance(len(core.scheduler.running))
        assert all(job.vector.done() for job in jobs)
        return generated, list(request.output), core.cache.stats()

    alone = output([])
    assert output([TEXT[:200], TEXT[:100]]) == alone
    assert max(alone[0]) == 12


def test_what_fails_ends_alone():
    core = engine()
    fails, works = EmbeddingJob(TEXT[:40]), EmbeddingJob(TEXT[:40])
    core.embeddings.add(fails)
    core.embeddings.add(works)
    hidden, core.decoder.hidden = core.decoder.hidden, lambda *_: 1 / 0
    core.embeddings.advance(0)
    assert isinstance(fails.vector.exception(), ZeroDivisionError)
    core.decoder.hidden = hidden
    core.embeddings.advance(0)
    core.embeddings.advance(0)
    torch.testing.assert_close(torch.tensor(works.vector.result()), of_stub(TEXT[:40]))


def test_who_leaves_frees_the_memory_and_the_next_begins_anew():
    core = engine()
    jobs = [EmbeddingJob(TEXT), EmbeddingJob(TEXT), EmbeddingJob(TEXT[:20])]
    for job in jobs:
        core.embeddings.add(job)
    core.embeddings.advance(0)
    assert core.embeddings._pooling is not None
    assert all(job.vector.cancel() for job in jobs[:2])
    core.embeddings.advance(0)
    assert core.embeddings.tokens == STEP + 20
    torch.testing.assert_close(torch.tensor(jobs[2].vector.result()), of_stub(TEXT[:20]))
    assert core.embeddings.idle
    assert core.embeddings._pooling is None


# On the engine's own thread


def test_an_idle_engine_wakes_for_it(started):
    for _ in range(3):
        vector = started.embed(TEXT[:50]).result(timeout=30)
        torch.testing.assert_close(torch.tensor(vector), of_stub(TEXT[:50]))


def test_a_request_is_answered_while_a_long_text_is_computed(started):
    long = started.embed([1] * 200_000)
    until(lambda: started.embeddings.tokens)
    request = Request("t", TEXT[:100], 20, SamplingParams(temperature=0.0))
    started.submit(request)
    assert started.ended.wait(30)
    assert (request.generated, long.done()) == (20, False)
    assert long.cancel()


def test_a_running_one_can_be_cancelled(started):
    long = started.embed([1] * 200_000)
    until(lambda: started.embeddings.tokens)
    assert long.cancel()
    assert started.embed(TEXT[:50]).result(timeout=30)
    assert started.embeddings.tokens < 200_000
    until(lambda: started.embeddings.idle)
