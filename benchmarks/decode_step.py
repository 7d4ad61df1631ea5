"""One decode step of many branches on a long shared prefix, with and without sharing; and one stream alone.

    python -m benchmarks.decode_step

The engine runs in this process. The prefix is put into its cache without being computed: keys and values are random
numbers, since a step takes as long whatever they are. Without sharing, each branch lives in a namespace of its own with
a prefix of its own: the same shapes, nothing in common.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks import machine
from benchmarks.options import parser, write_json
from engine.errors import StartError

if TYPE_CHECKING:
    import torch

    from engine.core import Engine
    from engine.model.base import Decoder
    from engine.schedule.request import Request

OWN_TOKENS = 8
ROOM = 64
WARM_UP = 3


@dataclass(frozen=True)
class Sizes:
    branches: int
    prefix: int
    steps: int


@dataclass(frozen=True)
class Figures:
    """Seconds a step, and tokens a second of one stream with a short prompt."""

    shared: float
    apart: float
    ratio: float
    single_stream: float


def measure(decoder: Decoder, dtype: torch.dtype, sizes: Sizes) -> Figures:
    shared = step_seconds(decoder, dtype, sizes, ["all"] * sizes.branches)
    apart = step_seconds(decoder, dtype, sizes, list(range(sizes.branches)))
    alone = step_seconds(decoder, dtype, Sizes(1, 1, max(sizes.steps, 32)), ["alone"])
    return Figures(shared, apart, apart / shared, 1 / alone)


def step_seconds(decoder: Decoder, dtype: torch.dtype, sizes: Sizes, namespaces: Sequence[Hashable]) -> float:
    """The median decode step of one request for each namespace, over the cached prefix of that namespace."""
    import torch

    from engine.core import Engine

    own = len(set(namespaces)) * sizes.prefix
    tails = len(namespaces) * (OWN_TOKENS + WARM_UP + sizes.steps + ROOM)
    engine = Engine(decoder, kv_tokens=2 * (own + tails), dtype=dtype, max_running=len(namespaces))
    source = Random(0)
    prefix = [source.randrange(decoder.config.vocab_size) for _ in range(sizes.prefix)]
    with torch.inference_mode():
        _randomise(engine)
        for namespace in dict.fromkeys(namespaces):
            _cache(engine, namespace, prefix)
        requests = [_request(namespace, prefix, source, decoder, sizes) for namespace in namespaces]
        for request in requests:
            engine.scheduler.submit(request)
        return _timed(engine, requests, sizes.steps)


def _timed(engine: Engine, requests: Sequence[Request], steps: int) -> float:
    while any(request.generated < WARM_UP for request in requests):
        engine.step()
    seconds = []
    for _ in range(steps):
        before = sum(request.generated for request in requests)
        began = time.perf_counter()
        engine.step()
        seconds.append(time.perf_counter() - began)
        after = sum(request.generated for request in requests)
        if after - before != len(requests):
            raise RuntimeError(f"a step of {len(requests)} requests made {after - before} tokens: not a plain decode")
    return statistics.median(seconds)


def _randomise(engine: Engine) -> None:
    for layer in (*engine.attention.kv.keys, *engine.attention.kv.values):
        layer.normal_()


def _cache(engine: Engine, namespace: Hashable, prefix: list[int]) -> None:
    """As if the prefix had been computed."""
    lease = engine.cache.acquire(namespace, prefix)
    if not lease.grow(len(prefix)):
        raise RuntimeError("the KV pool is too small for the prefixes")
    lease.advance(len(prefix))
    lease.close(prefix)


def _request(namespace: Hashable, prefix: list[int], source: Random, decoder: Decoder, sizes: Sizes) -> Request:
    from engine.sample.params import SamplingParams
    from engine.schedule.request import Request

    own = [source.randrange(decoder.config.vocab_size) for _ in range(OWN_TOKENS)]
    return Request(namespace, [*prefix, *own], WARM_UP + sizes.steps + ROOM, SamplingParams(temperature=0))


def _load(model: str, threads: int | None) -> tuple[Decoder, torch.dtype]:
    """As the server loads it."""
    import torch

    from engine.model import load_decoder
    from engine.model.calibration import Calibration
    from engine.model.dtype import choose_dtype
    from engine.weights.checkpoint import open_checkpoint
    from engine.weights.source import home_folder, resolve

    if threads is not None:
        torch.set_num_threads(threads)
    dtype = choose_dtype("auto")
    checkpoint = open_checkpoint(resolve(model, home_folder()))
    return load_decoder(checkpoint, dtype, Calibration(home_folder() / "calibration.json")), dtype


def main() -> None:
    given = _options()
    sizes = Sizes(given.branches, given.prefix, given.steps)
    try:
        decoder, dtype = _load(given.model, given.threads)
    except StartError as error:
        sys.exit(f"decode_step: {error}")
    figures = measure(decoder, dtype, sizes)
    print(f"{sizes.branches} branches on {sizes.prefix} tokens, one decode step, {dtype}:")
    print(f"  shared {figures.shared * 1e3:.1f} ms, apart {figures.apart * 1e3:.1f} ms, ratio {figures.ratio:.2f}")
    print(f"one stream: {figures.single_stream:.1f} tokens/s")

    write_json(
        given.json,
        {"machine": machine.describe(), "sizes": asdict(sizes), "figures": asdict(figures)},
    )


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--model", default="smollm2")
    options.add_argument("--threads", type=int)
    options.add_argument("--branches", type=int, default=16)
    options.add_argument("--prefix", type=int, default=4096)
    options.add_argument("--steps", type=int, default=15)
    options.add_argument("--json", type=Path, help="write the figures to this file")
    return options.parse_args()


if __name__ == "__main__":
    main()
