"""Warming a prefix, over the stub model: what is computed, what is not, and who goes first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.core import Engine
from engine.errors import RequestError
from engine.model.stub import StubDecoder
from engine.sample.params import SamplingParams
from engine.schedule.request import Request
from engine.server.generation import Dispatcher
from engine.server.warm import compute_prefix, pieces

STEP = 32
PREFIX = list(range(300))


def with_service(test, **options):
    """Runs `test(service)` on a loop, with an engine thread behind it."""

    async def run():
        core = Engine(
            StubDecoder(997), kv_tokens=2048, dtype=torch.float64, step_tokens=STEP, check_every_step=True, **options
        )
        service = SimpleNamespace(
            engine=core, dispatcher=Dispatcher(core, 100), config=SimpleNamespace(step_tokens=STEP)
        )
        service.dispatcher.start()
        try:
            return await asyncio.wait_for(test(service), 60)
        finally:
            core.stop()

    return asyncio.run(run())


async def generate(service, prompt, namespace="t"):
    request = Request(namespace, prompt, 4, SamplingParams(temperature=0.0))
    return [event async for event in service.dispatcher.run([request])], request


async def until(condition):
    """The engine thread sets no event: ask it at each turn of the loop. `with_service` is the deadline."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


@given(st.integers(0, 500), st.integers(1, 500), st.integers(1, 600))
def test_pieces_add_up(cached, more, size):
    total = cached + more
    ends = list(pieces(cached, total, size))
    assert ends[-1] == total
    assert all(0 < end - start <= size for start, end in zip([cached, *ends], ends, strict=False))


@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("page_size", [1, 16])
def test_the_next_request_finds_the_prefix(page_size, drafts):
    async def test(service):
        warmed = await compute_prefix(service, "t", PREFIX, 0)
        assert (warmed.warmed_tokens, warmed.cached_tokens) == (300, 0)
        assert service.engine.counters.generated_tokens == 0
        _, request = await generate(service, [*PREFIX, 998])
        assert request.cached == 300 // page_size * page_size
        return list(request.output)

    async def alone(service):
        return list((await generate(service, [*PREFIX, 998]))[1].output)

    assert with_service(test, page_size=page_size, drafts=drafts) == with_service(alone)


def test_what_is_cached_is_not_computed_again():
    async def test(service):
        await compute_prefix(service, "t", PREFIX[:200], 0)
        warmed = await compute_prefix(service, "t", PREFIX, 0)
        assert (warmed.warmed_tokens, warmed.cached_tokens) == (300, 200)
        assert (await compute_prefix(service, "t", PREFIX, 0)).cached_tokens == 299
        assert (await compute_prefix(service, "other", PREFIX, 0)).cached_tokens == 0

    with_service(test)


def test_a_prompt_that_comes_later_is_done_first():
    async def test(service):
        ended = []
        long = asyncio.ensure_future(compute_prefix(service, "t", list(range(900)) * 2, 0))
        long.add_done_callback(lambda _: ended.append("warm"))
        await until(lambda: service.engine.counters.computed_tokens >= 2 * STEP)
        for i in range(3):
            await generate(service, [900 + i] * 100, "u")
            ended.append("chat")
        await long
        assert ended == ["chat", "chat", "chat", "warm"]

    with_service(test)


def test_it_is_retained():
    async def test(service):
        await compute_prefix(service, "t", PREFIX, 500)
        await compute_prefix(service, "t", [7] * 300, 0)
        for i in range(10):
            await generate(service, [900 + i] * 190)
        return service.engine.cache.peek("t", [*PREFIX, 0]), service.engine.cache.peek("t", [7] * 301)

    assert with_service(test) == (300, 0)


def test_who_leaves_ends_it():
    async def test(service):
        long = asyncio.ensure_future(compute_prefix(service, "t", list(range(900)) * 2, 0))
        await until(lambda: service.engine.scheduler.running)
        long.cancel()
        await asyncio.wait([long])
        await until(lambda: service.engine.scheduler.idle)
        stats = await asyncio.wrap_future(service.engine.call(lambda kv: kv.stats()))
        assert stats.leases == stats.private == 0
        assert stats.cached < 1800

    with_service(test)


def test_a_step_that_fails_is_an_error():
    async def test(service):
        service.engine.decoder.forward = lambda *_: 1 / 0
        with pytest.raises(RequestError, match="internal error") as refused:
            await compute_prefix(service, "t", PREFIX, 0)
        assert (refused.value.status, refused.value.code) == (500, "generation_failed")

    with_service(test)
