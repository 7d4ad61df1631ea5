"""The parts of a decoder layer, as plain objects over weights: nothing trains, so nothing is a Module."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
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
class HeadNorm:
    """Each head of the queries and of the keys is normed by itself; both weights have the width of a head."""

    queries: RmsNorm
    keys: RmsNorm

    def __call__(self, ops: Elementwise, heads: Tensor, query_heads: int, key_heads: int) -> None:
        """heads: [tokens, queries, keys and values, head_dim], changed in place."""
        parts = heads[:, :query_heads], heads[:, query_heads : query_heads + key_heads]
        for norm, part in zip((self.queries, self.keys), parts, strict=True):
            part.copy_(norm(ops, part.contiguous().view(-1, part.shape[-1]), None).view(part.shape))


@dataclass(frozen=True)
class GatedMlp:
    """gate_up: both projections in one matrix, the gate's rows first."""

    gate_up: Projection
    down: Projection
    activation: str = "silu"

    def __call__(self, ops: Elementwise, x: Tensor) -> Tensor:
        both = self.gate_up(x)
        if self.activation == "silu":
            return self.down(ops.gate(both))
        gate, up = both.chunk(2, -1)
        return self.down(F.gelu(gate, approximate="tanh").mul_(up))


@dataclass(frozen=True)
class Embedding:
    """weight: [vocabulary, hidden]."""

    weight: Tensor
    scale: float = 1.0

    def __call__(self, ids: Tensor) -> Tensor:
        found = torch.embedding(self.weight, ids)
        return found if self.scale == 1.0 else found.mul_(self.scale)
