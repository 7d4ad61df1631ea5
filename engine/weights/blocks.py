"""4-bit weights as they lie in GGUF files, for kernels that multiply with them directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.weights.quant import BLOCK, BLOCK_BYTES, QuantType


@dataclass(frozen=True)
class Int4Blocks:
    """weight[o, i] = scale[o, i // 32] * codes[o, i] + minimum[o, i // 32].

    codes: uint8 [out, in], each below 16; scale, minimum: float32 [out, in / 32].
    """

    codes: Tensor
    scale: Tensor
    minimum: Tensor


def int4_blocks(raw: Tensor, kind: QuantType, shape: Sequence[int]) -> Int4Blocks | None:
    """The blocks of a Q4_0 or Q4_1 matrix from `raw` (uint8 [bytes]); None for every other type."""
    if kind not in (QuantType.Q4_0, QuantType.Q4_1):
        return None
    blocks = raw.view(-1, BLOCK_BYTES[kind])
    nibbles = blocks[:, 2 if kind is QuantType.Q4_0 else 4 :]
    codes = torch.cat([nibbles & 0x0F, nibbles >> 4], 1).view(shape[0], shape[1])
    constants = blocks.view(torch.float16)[:, :2].float().view(shape[0], shape[1] // BLOCK, 2)
    scale = constants[:, :, 0].contiguous()
    minimum = -8 * scale if kind is QuantType.Q4_0 else constants[:, :, 1].contiguous()
    return Int4Blocks(codes, scale, minimum)


def stack(parts: Sequence[Int4Blocks]) -> Int4Blocks:
    """The rows of all parts, in their order."""
    return Int4Blocks(
        torch.cat([part.codes for part in parts]),
        torch.cat([part.scale for part in parts]),
        torch.cat([part.minimum for part in parts]),
    )
