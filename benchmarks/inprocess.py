"""An engine in this process, loaded as the server loads it, for measurements that want no sockets in between.

A prefix can be put into the cache without being computed: keys and values are then random numbers, since a step takes
as long whatever they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.client import BenchmarkError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.attention.base import AttentionStep
    from engine.core import Engine
    from engine.model.base import Decoder
    from engine.schedule.request import Request
    from engine.server.service import Service


def load(model: str, threads: int | None, **settings: Any) -> Service:
    """Not started: drive it with `engine.step`, or start its dispatcher. `settings` are those of `EngineConfig`."""
    from engine.config import EngineConfig
    from engine.server.load import load_service

    return load_service(EngineConfig(model=model, threads=threads, **settings))


def request(service: Service, prompt: Sequence[int], tokens: int, tenant: str = "") -> Request:
    """A greedy completion of exactly `tokens` tokens, made as the server makes it. BenchmarkError where it refuses."""
    from engine.errors import RequestError
    from engine.server.prepare import Caller
    from engine.server.wire import CompletionRequest

    body = CompletionRequest(prompt=list(prompt), max_tokens=tokens, temperature=0, ignore_eos=True)
    try:
        ((_, requests),) = service.preparer.completion(body, Caller(tenant))
    except RequestError as error:
        raise BenchmarkError(str(error)) from None
    return requests[0]


def random_ids(service: Service, count: int, source: Random) -> list[int]:
    return [source.randrange(service.preparer.tokenizer.vocab_size) for _ in range(count)]


def fill_with_noise(engine: Engine) -> None:
    """Memory that was never written would be read faster than any that was.

    On a thread that ends: OpenMP's workers end with it. Were they left behind, those of the engine's own thread would
    be too many for the cores, and sleep where they else spin.
    """

    def fill() -> None:
        for layer in (*engine.attention.kv.keys, *engine.attention.kv.values):
            layer.normal_()

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()


def pretend_cached(engine: Engine, tenant: str, prefix: Sequence[int]) -> None:
    """As if the prefix had been computed for the tenant."""
    lease = engine.cache.acquire(tenant, list(prefix))
    if not lease.grow(len(prefix) - lease.cached):
        raise BenchmarkError(f"the KV pool is too small for a prefix of {len(prefix)} tokens")
    lease.advance(len(prefix) - lease.cached)
    lease.close(list(prefix))


def finish(engine: Engine, *requests: Request) -> None:
    """Step until all have ended."""
    import torch

    for each in requests:
        engine.scheduler.submit(each)
    with torch.inference_mode():
        while any(each.finish is None for each in requests):
            engine.step()


@dataclass(frozen=True)
class Pass:
    """One forward pass: when it began and ended, and how many requests were running."""

    began: float
    ended: float
    running: int

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class TimedDecoder:
    """A decoder that notes when each of its forward passes began and ended."""

    def __init__(self, decoder: Decoder, running: Callable[[], int]) -> None:
        self.config = decoder.config
        self.passes: list[Pass] = []
        self._decoder = decoder
        self._running = running

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        running, began = self._running(), time.perf_counter()
        logits = self._decoder.forward(ids, positions, rows, attend)
        self.passes.append(Pass(began, time.perf_counter(), running))
        return logits

    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        return self._decoder.hidden(ids, positions, attend)


def timed(engine: Engine) -> TimedDecoder:
    """From now on the engine's forward passes are noted in what is returned."""
    decoder = TimedDecoder(engine.decoder, lambda: len(engine.scheduler.running))
    engine.decoder = decoder
    return decoder
