"""A mixture of experts: a router picks a few gated MLPs for each token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.elementwise import Elementwise
from engine.model.layers import GatedMlp
from engine.model.linear import Projection


@dataclass(frozen=True)
class ExpertMlp:
    """The tokens of an expert are multiplied together, so each expert's weights are read once a step."""

    router: Projection
    experts: tuple[GatedMlp, ...]
    chosen: int
    normalised: bool

    def __call__(self, ops: Elementwise, x: Tensor) -> Tensor:
        """x: [tokens, hidden] -> the same shape."""
        weights, picks = self.route(x)
        out = torch.zeros_like(x)
        for expert in sorted(set(picks.flatten().tolist())):
            tokens, places = (picks == expert).nonzero(as_tuple=True)
            mixed = self.experts[expert](ops, x[tokens]) * weights[tokens, places].unsqueeze(-1)
            out.index_add_(0, tokens, mixed)
        return out

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and numbers of each token's experts, both [tokens, chosen]."""
        weights, picks = self.router(x).float().softmax(-1).topk(self.chosen, -1)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights.to(x.dtype), picks
