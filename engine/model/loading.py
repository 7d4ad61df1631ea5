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
from engine.model.calibration import Calibration
from engine.model.layers import RmsNorm
from engine.model.linear import ByRows, Projection, int4_projection, projection
from engine.weights.blocks import stack
from engine.weights.checkpoint import Checkpoint


@dataclass(frozen=True)
class Loader:
    """Reads weights in one dtype and checks each shape against the configuration."""

    checkpoint: Checkpoint
    dtype: torch.dtype
    calibration: Calibration | None = None
    """Decides where 4-bit kernels serve few rows; without one they are not used."""

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        self._check(f"{name}.weight", (rows, columns))
        return self.checkpoint.tensor(f"{name}.weight", self.dtype)

    def norm(self, name: str, width: int | None = None) -> RmsNorm:
        """`width` is the hidden size where nothing else is said."""
        config = self.checkpoint.config
        self._check(f"{name}.weight", (width or config.hidden_size,))
        weight = self.checkpoint.tensor(f"{name}.weight", torch.float32)
        return RmsNorm(weight + 1 if self.checkpoint.norms_from_one else weight, config.rms_eps)

    def fused(self, parts: Mapping[str, int], columns: int, bias: bool) -> Projection:
        """One linear whose output is that of all `parts` (name to rows), side by side in their order."""
        weight = self._stacked(parts, ".weight", (columns,))
        offset = self._stacked(parts, ".bias", ()) if bias else None
        many = projection(weight, offset)
        return self._with_int4(list(parts), many, offset, columns) if self.calibration else many

    def _with_int4(self, names: list[str], many: Projection, bias: Tensor | None, columns: int) -> Projection:
        """`many`, or both forms where the matrix is stored in 4 bits and those are faster for few rows."""
        assert self.calibration is not None
        blocks = stack([self.checkpoint.blocks(f"{name}.weight") for name in names])
        few = int4_projection(blocks, bias) if blocks is not None else None
        if blocks is None or few is None:
            return many
        limit = self.calibration.rows(
            f"int4 {len(blocks.codes)} x {columns} {self.dtype}",
            few,
            many,
            lambda rows: torch.ones(rows, columns, dtype=self.dtype),
        )
        return ByRows(few, many, limit) if limit else many

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
