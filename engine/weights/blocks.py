"""Quantised weights as they lie in GGUF files, for kernels that multiply with them directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.weights.quant import BLOCK, BLOCK_BYTES, QuantType

PACKED = (QuantType.Q4_0, QuantType.Q4_1, QuantType.Q8_0)
"""Types that the kernels multiply with as they are; others become floats when they are loaded."""
ZEROS = {QuantType.Q4_0: 8, QuantType.Q8_0: 128}
"""The code that stands for 0 in types without a minimum."""


@dataclass(frozen=True)
class Blocks:
    """weight[o, i] = scale[o, i // 32] * codes[o, i] + minimum[o, i // 32].

    codes: uint8 [out, in], of 4 or 8 `bits`; scale: float16 [out, in / 32]; minimum: the same, or None where it is
    -zero * scale.
    """

    codes: Tensor
    scale: Tensor
    minimum: Tensor | None
    bits: int
    zero: int = 0

    @property
    def offset(self) -> Tensor:
        """The minimum, float32 [out, in / 32]."""
        return -self.zero * self.scale.float() if self.minimum is None else self.minimum.float()


def read_blocks(raw: Tensor, kind: QuantType, shape: Sequence[int]) -> Blocks | None:
    """The blocks of a matrix from `raw` (uint8 [bytes]); None for a type that has none."""
    if kind not in PACKED:
        return None
    blocks = raw.view(-1, BLOCK_BYTES[kind])
    constants = 4 if kind is QuantType.Q4_1 else 2
    values, rows = blocks[:, constants:], shape[0]
    if kind is QuantType.Q8_0:
        bits, codes = 8, values ^ 0x80  # from two's complement to zero at 128
    else:
        bits, codes = 4, torch.cat([values & 0x0F, values >> 4], 1)
    pairs = blocks[:, :constants].contiguous().view(torch.float16).view(rows, shape[1] // BLOCK, -1)
    minimum = pairs[:, :, 1].contiguous() if kind is QuantType.Q4_1 else None
    return Blocks(codes.reshape(*shape), pairs[:, :, 0].contiguous(), minimum, bits, ZEROS.get(kind, 0))


def stack(parts: Sequence[Blocks | None]) -> Blocks | None:
    """The rows of all parts, in their order; None unless all have blocks of one kind."""
    present = [part for part in parts if part is not None]
    kinds = {(part.bits, part.zero, part.minimum is None) for part in present}
    if len(present) < len(parts) or len(kinds) != 1:
        return None
    minima = [part.minimum for part in present if part.minimum is not None]
    return Blocks(
        torch.cat([part.codes for part in present]),
        torch.cat([part.scale for part in present]),
        torch.cat(minima) if minima else None,
        present[0].bits,
        present[0].zero,
    )
