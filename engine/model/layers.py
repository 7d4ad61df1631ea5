"""The parts of a decoder layer, as plain objects over weights: nothing trains, so nothing is a Module."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.elementwise import Elementwise
from engine.model.linear import Projection


@dataclass(frozen=True)
class RmsNorm:
    """Root-mean-square norm with the residual before it; weight: float32 [width]."""

    weight: Tensor
    eps: float

    def __call__(self, ops: Elementwise, x: Tensor, added: Tensor | None) -> Tensor:
        """x += added, in place; returns the norm of x."""
        return ops.norm(x, added, self.weight, self.eps)


@dataclass(frozen=True)
class GatedMlp:
    """gate_up: both projections in one matrix, the gate's rows first."""

    gate_up: Projection
    down: Projection

    def __call__(self, ops: Elementwise, x: Tensor) -> Tensor:
        return self.down(ops.gate(self.gate_up(x)))


@dataclass(frozen=True)
class Embedding:
    """weight: [vocabulary, hidden]."""

    weight: Tensor

    def __call__(self, ids: Tensor) -> Tensor:
        return torch.embedding(self.weight, ids)
