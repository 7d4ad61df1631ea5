"""Turns a checkpoint's tensors into the fused weights of a decoder, one tensor at a time.

Fused buffers are allocated once and filled part by part, so that loading never holds a second copy of the
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import StartError
from engine.model.layers import RmsNorm
from engine.model.linear import Projection, projection
from engine.weights.checkpoint import Checkpoint


@dataclass(frozen=True)
class Loader:
    """Reads weights in one dtype and checks each shape against the configuration."""

    checkpoint: Checkpoint
    dtype: torch.dtype

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        self._check(f"{name}.weight", (rows, columns))
        return self.checkpoint.tensor(f"{name}.weight", self.dtype)

    def norm(self, name: str) -> RmsNorm:
        config = self.checkpoint.config
        self._check(f"{name}.weight", (config.hidden_size,))
        return RmsNorm(self.checkpoint.tensor(f"{name}.weight", self.dtype), config.rms_eps)

    def fused(self, parts: Mapping[str, int], columns: int, bias: bool) -> Projection:
        """One linear whose output is that of all `parts` (name to rows), side by side in their order."""
        weight = self._stacked(parts, ".weight", (columns,))
        return projection(weight, self._stacked(parts, ".bias", ()) if bias else None)

    def _stacked(self, parts: Mapping[str, int], suffix: str, inner: tuple[int, ...]) -> Tensor:
        """All shapes are checked first, so that a configuration that lies can't make us allocate."""
        for name, rows in parts.items():
            self._check(name + suffix, (rows, *inner))
        stacked = torch.empty(sum(parts.values()), *inner, dtype=self.dtype)
        for name, target in zip(parts, torch.split(stacked, list(parts.values())), strict=True):
            target.copy_(self.checkpoint.tensor(name + suffix, self.dtype))
        return stacked

    def _check(self, name: str, expected: tuple[int, ...]) -> None:
        shape = self.checkpoint.shape(name)
        if shape != expected:
            raise StartError(
                f"{self.checkpoint.name}: tensor {name} has shape {shape}, but the configuration says {expected}"
            )
