"""The tensor types of GGUF files and how each becomes floats.

A quantised type stores rows as blocks of 32 elements: one or two float16 constants, then the codes. (The K types'
blocks have 256: `engine.weights.kquant`.) The arithmetic is done in float32 in the order of the reference (scale times
code, then plus minimum), so that results are equal bit for bit.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from engine.weights.kquant import SUPER, q4_k, q5_k, q6_k

BLOCK = 32

CHUNK = 1 << 20
"""Elements that are decoded at a time, so that temporaries stay in cache and small."""


class QuantType(IntEnum):
    """The types that this engine reads, with their numbers in GGUF files."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30


PLAIN = {QuantType.F32: torch.float32, QuantType.F16: torch.float16, QuantType.BF16: torch.bfloat16}
BLOCK_BYTES = {
    QuantType.Q4_0: 18,
    QuantType.Q4_1: 20,
    QuantType.Q5_0: 22,
    QuantType.Q5_1: 24,
    QuantType.Q8_0: 34,
}
SUPER_BYTES = {QuantType.Q4_K: 144, QuantType.Q5_K: 176, QuantType.Q6_K: 210}


def block_layout(kind: QuantType) -> tuple[int, int]:
    """(elements, bytes) of one block; a plain type has blocks of one element."""
    if kind in PLAIN:
        return 1, PLAIN[kind].itemsize
    return (SUPER, SUPER_BYTES[kind]) if kind in SUPER_BYTES else (BLOCK, BLOCK_BYTES[kind])


def dequantise(raw: Tensor, kind: QuantType, out: Tensor) -> None:
    """Decodes `raw` (uint8 [bytes]) into the contiguous `out`: any float dtype, as many elements as raw."""
    if kind in PLAIN:
        out.view(-1).copy_(raw.view(PLAIN[kind]))
        return
    elements, size = block_layout(kind)
    blocks, target, step = raw.view(-1, size), out.view(-1, elements), max(1, CHUNK // elements)
    for start in range(0, len(blocks), step):
        stop = min(start + step, len(blocks))
        target[start:stop] = _DECODERS[kind](blocks[start:stop])


def _q4_0(blocks: Tensor) -> Tensor:
    """Scale, 16 bytes of codes with zero at 8."""
    return _nibbles(blocks[:, 2:]).sub_(8.0).mul_(_constant(blocks, 0)).view(-1, BLOCK)


def _q4_1(blocks: Tensor) -> Tensor:
    """Scale, minimum, 16 bytes of codes."""
    codes = _nibbles(blocks[:, 4:])
    return codes.mul_(_constant(blocks, 0)).add_(_constant(blocks, 1)).view(-1, BLOCK)


def _q5_0(blocks: Tensor) -> Tensor:
    """Scale, 32 fifth bits, 16 bytes of codes with zero at 16."""
    codes = _nibbles(blocks[:, 6:]).add_(_fifth_bits(blocks[:, 2:6]))
    return codes.sub_(16.0).mul_(_constant(blocks, 0)).view(-1, BLOCK)


def _q5_1(blocks: Tensor) -> Tensor:
    """Scale, minimum, 32 fifth bits, 16 bytes of codes."""
    codes = _nibbles(blocks[:, 8:]).add_(_fifth_bits(blocks[:, 4:8]))
    return codes.mul_(_constant(blocks, 0)).add_(_constant(blocks, 1)).view(-1, BLOCK)


def _fifth_bits(packed: Tensor) -> Tensor:
    """[n, 4] bytes -> uint8 [n, 2, 16], each 0 or 16."""
    bits = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    return (bits << 4).view(-1, 2, BLOCK // 2)


def _q8_0(blocks: Tensor) -> Tensor:
    """Scale, 32 signed bytes."""
    return blocks[:, 2:].view(torch.int8).float().mul_(_constant(blocks, 0).view(-1, 1))


def _nibbles(codes: Tensor) -> Tensor:
    """[n, 16] bytes -> float32 [n, 2, 16]: low nibbles are a block's first half, high ones its second."""
    pair = torch.empty(len(codes), 2, BLOCK // 2, dtype=torch.float32)
    pair[:, 0] = codes & 0x0F
    pair[:, 1] = codes >> 4
    return pair


def _constant(blocks: Tensor, index: int) -> Tensor:
    """The block's float16 number `index`, as float32 [n, 1, 1]."""
    return blocks.view(torch.float16)[:, index].float().view(-1, 1, 1)


_DECODERS = {
    QuantType.Q4_0: _q4_0,
    QuantType.Q4_1: _q4_1,
    QuantType.Q5_0: _q5_0,
    QuantType.Q5_1: _q5_1,
    QuantType.Q8_0: _q8_0,
    QuantType.Q4_K: q4_k,
    QuantType.Q5_K: q5_k,
    QuantType.Q6_K: q6_k,
}
