"""How fast this machine multiplies matrices, by number type: what the floor of a run is divided by.

Measured on the shape of a prompt's largest product: 1,024 rows through a gated MLP's first matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from engine.model.config import ModelConfig

ROWS = 1024
TRIES = 20


@dataclass(frozen=True)
class Rates:
    """Operations a second, a multiplication and an addition counting as two; None where there is no such kernel."""

    float32: float
    bfloat16: float | None
    int8: float | None


def measure_rates(config: ModelConfig, threads: int | None = None) -> Rates:
    """The best of several tries each. Takes well under a second."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    inputs, outputs = config.hidden_size, 2 * config.intermediate_size
    work = 2.0 * ROWS * inputs * outputs
    builds = (
        lambda: _floating(inputs, outputs, torch.float32),
        lambda: _floating(inputs, outputs, torch.bfloat16),
        lambda: _int8(inputs, outputs),
    )
    float32, bfloat16, int8 = (None if (best := _best(build)) is None else work / best for build in builds)
    assert float32 is not None
    return Rates(float32, bfloat16, int8)


def _floating(inputs: int, outputs: int, dtype: torch.dtype) -> Callable[[], object]:
    """Prepared as the engine prepares its weights."""
    import torch

    from engine.model.linear import projection

    project = projection(torch.randn(outputs, inputs, dtype=dtype))
    x = torch.randn(ROWS, inputs, dtype=dtype)
    return lambda: project(x)


def _int8(inputs: int, outputs: int) -> Callable[[], object]:
    """oneDNN's u8 x s8 product."""
    import torch

    weight = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8)
    x = torch.randint(0, 256, (ROWS, inputs), dtype=torch.uint8)
    scales, zeros = torch.ones(outputs), torch.zeros(outputs, dtype=torch.int64)
    packed = torch.ops.onednn.qlinear_prepack(weight, list(x.shape))
    after: tuple[object, ...] = (None, 1.0, 0, torch.float32, "none", [], "")
    return lambda: torch.ops.onednn.qlinear_pointwise(x, 1.0, 128, packed, scales, zeros, *after)


def _best(build: Callable[[], Callable[[], object]]) -> float | None:
    """Seconds of the fastest try; None where there is no such kernel here."""
    try:
        kernel = build()
        kernel()
    except (AttributeError, RuntimeError):
        return None
    return min(_seconds(kernel) for _ in range(TRIES))


def _seconds(kernel: Callable[[], object]) -> float:
    began = time.perf_counter()
    kernel()
    return time.perf_counter() - began
