"""One decode step of many branches on a long shared prefix, with and without sharing; and one stream alone.

    python -m benchmarks.decode_step

The engine runs in this process, without drafts. Without sharing, each branch lives in a namespace of its own with a
prefix of its own: the same shapes, nothing in common.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING

from benchmarks import inprocess, machine
from benchmarks.client import BenchmarkError
from benchmarks.options import add_model, count, parser, write_json
from engine.errors import StartError

if TYPE_CHECKING:
    from engine.core import Engine
    from engine.schedule.request import Request

OWN_TOKENS = 8
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


def measure(model: str, threads: int | None, sizes: Sizes) -> Figures:
    shared = step_seconds(model, threads, sizes, ["all"] * sizes.branches)
    apart = step_seconds(model, threads, sizes, [str(branch) for branch in range(sizes.branches)])
    alone = step_seconds(model, threads, Sizes(1, 1, max(sizes.steps, 32)), ["alone"])
    return Figures(shared, apart, apart / shared, 1 / alone)


def step_seconds(model: str, threads: int | None, sizes: Sizes, tenants: Sequence[str]) -> float:
    """The median decode step of one request for each tenant, over the cached prefix of that tenant."""
    import torch

    tokens = WARM_UP + sizes.steps + 1
    room = len(set(tenants)) * sizes.prefix + len(tenants) * (OWN_TOKENS + tokens)
    service = inprocess.load(model, threads, kv_tokens=2 * room + 64, max_running=len(tenants), drafts=False)
    source = Random(0)
    prefix = inprocess.random_ids(service, sizes.prefix, source)
    with torch.inference_mode():
        inprocess.fill_with_noise(service.engine)
        for tenant in dict.fromkeys(tenants):
            inprocess.pretend_cached(service.engine, tenant, prefix)
        prompts = [[*prefix, *inprocess.random_ids(service, OWN_TOKENS, source)] for _ in tenants]
        requests = [inprocess.request(service, prompt, tokens, t) for prompt, t in zip(prompts, tenants, strict=True)]
        for request in requests:
            service.engine.scheduler.submit(request)
        return _timed(service.engine, requests, sizes.steps)


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
            raise BenchmarkError(f"a step of {len(requests)} requests made {after - before} tokens: not a plain decode")
    return statistics.median(seconds)


def main() -> None:
    given = _options()
    sizes = Sizes(given.branches, given.prefix, given.steps)
    try:
        figures = measure(given.model, given.threads, sizes)
    except (BenchmarkError, StartError) as error:
        sys.exit(f"decode_step: {error}")
    print(f"{sizes.branches} branches on {sizes.prefix} tokens, one decode step:")
    print(f"  shared {figures.shared * 1e3:.1f} ms, apart {figures.apart * 1e3:.1f} ms, ratio {figures.ratio:.2f}")
    print(f"one stream: {figures.single_stream:.1f} tokens/s")
    write_json(given.json, {"machine": machine.describe(), "sizes": asdict(sizes), "figures": asdict(figures)})


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    add_model(options)
    options.add_argument("--branches", type=count, default=16)
    options.add_argument("--prefix", type=count, default=4096)
    options.add_argument("--steps", type=count, default=15)
    return options.parse_args()


if __name__ == "__main__":
    main()
