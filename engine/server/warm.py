"""Computes a prefix into the cache with nothing generated, without getting in anyone's way.

The prefix is computed a step's tokens at a time, each as a request of its own that ends when its prompt is computed
(`max_tokens` 0). Whoever came between is in progress by then, and goes first: a prompt that arrives while a long
prefix is warmed waits for one piece of it, not for all. Pieces share what they compute through the tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from engine.cache.keys import as_key
from engine.errors import RequestError
from engine.sample.params import SamplingParams
from engine.schedule.request import Finish, Request
from engine.server.service import Service


@dataclass(frozen=True)
class Warmed:
    """Tokens that are cached now, and how many of them had been before."""

    warmed_tokens: int
    cached_tokens: int


LEAST_AHEAD = 32
"""What the next prompt of a conversation must add to the cache to be computed before it comes."""


async def compute_ahead(service: Service, tenant: str, ids: Sequence[int], retain_seconds: float) -> Warmed | None:
    """`compute_prefix`, where it is worth it. A full engine has better things to do: then nothing happens."""
    key = as_key(ids)
    cached = await asyncio.wrap_future(service.engine.call(lambda kv: kv.peek(tenant, key)))
    if len(ids) - cached < LEAST_AHEAD:
        return None
    with suppress(RequestError):
        return await compute_prefix(service, tenant, ids, retain_seconds)
    return None


async def compute_prefix(service: Service, tenant: str, ids: Sequence[int], retain_seconds: float) -> Warmed:
    """Raises RequestError: 429 `queue_full`, 500 `generation_failed`. Leaving early aborts what is under way."""
    key = as_key(ids)
    cached = await asyncio.wrap_future(service.engine.call(lambda kv: kv.peek(tenant, key)))
    computed = 0
    for end in pieces(cached, len(ids), service.config.step_tokens):
        request = Request(
            namespace=tenant,
            prompt=ids[:end],
            max_tokens=0,
            sampling=SamplingParams(temperature=0.0),
            retain_seconds=retain_seconds,
        )
        await _finish(service, request)
        computed += end - (request.cached or 0)
    return Warmed(len(ids), len(ids) - computed)


def pieces(cached: int, total: int, size: int) -> Iterator[int]:
    """Where each piece ends, when `cached` of `total` tokens are there already; the last one always at `total`."""
    yield from range(cached + size, total, size)
    yield total


async def _finish(service: Service, request: Request) -> None:
    async with aclosing(service.dispatcher.run([request])) as events:
        async for event in events:
            if event.finish is Finish.ERROR:
                message = f"The prefix could not be computed: {request.error}"
                raise RequestError(message, code="generation_failed", status=500)
