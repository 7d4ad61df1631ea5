"""Which number type to compute in, decided by a measurement of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from engine.errors import StartError
from engine.model.linear import projection

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

# By how much bfloat16 must beat float32 at a number of rows. It rounds, so it has to be clearly faster on a
# prefill chunk; on a decode step, where timings are noisy, it only must not be slower.
REQUIRED_GAIN = {1: 0.9, 256: 1.5}
PROBE_OUTPUTS, PROBE_INPUTS = 2048, 1024
PROBE_TRIES = 3


def choose_dtype(requested: str) -> torch.dtype:
    """`auto`, `float32` or `bfloat16` -> a dtype. `auto` costs a few milliseconds."""
    if requested in DTYPES:
        return DTYPES[requested]
    if requested != "auto":
        raise StartError(f"no dtype named {requested!r}: use auto, {' or '.join(DTYPES)}")
    return pick(_measure)


def pick(seconds: Callable[[torch.dtype, int], float]) -> torch.dtype:
    """bfloat16 when it gains enough at every probed number of rows, else float32."""
    for rows, required in REQUIRED_GAIN.items():
        if seconds(torch.float32, rows) < required * seconds(torch.bfloat16, rows):
            return torch.float32
    return torch.bfloat16


def _measure(dtype: torch.dtype, rows: int) -> float:
    """Seconds of one projection: the best of a few tries, after one that warms up."""
    project = projection(torch.ones(PROBE_OUTPUTS, PROBE_INPUTS, dtype=dtype))
    x = torch.ones(rows, PROBE_INPUTS, dtype=dtype)
    project(x)
    return min(_seconds(lambda: project(x)) for _ in range(PROBE_TRIES))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
