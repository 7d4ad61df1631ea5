"""The parts of a decoder layer, as plain objects over weights: nothing trains, so nothing is a Module."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.linear import Projection


@dataclass(frozen=True)
class RmsNorm:
    """Root-mean-square norm; the mean is taken in float32 whatever the dtype of x."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


@dataclass(frozen=True)
class GatedMlp:
    """gate_up: both projections in one matrix, the gate's rows first."""

    gate_up: Projection
    down: Projection

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate).mul_(up))


@dataclass(frozen=True)
class Embedding:
    """weight: [vocabulary, hidden]."""

    weight: Tensor

    def __call__(self, ids: Tensor) -> Tensor:
        return torch.embedding(self.weight, ids)
