"""GGUF's K types: super-blocks of 256 elements whose parts have small scales (and minima) of their own.

Layouts as llama.cpp writes them; the arithmetic is float32 in the reference's order, so that results are equal bit for
bit. Each decoder takes blocks, uint8 [n, bytes], and returns float32 [n, 256].
"""

from __future__ import annotations

import torch
from torch import Tensor

SUPER = 256


def q4_k(blocks: Tensor) -> Tensor:
    """Scale and scale of minima (float16), 12 bytes of 6-bit scales and minima, 128 bytes of codes."""
    scale, minimum = _scales_and_minima(blocks)
    codes = _nibbles(blocks[:, 16:144])
    return (scale * codes - minimum).view(-1, SUPER)


def q5_k(blocks: Tensor) -> Tensor:
    """As Q4_K, with 32 bytes that hold the codes' fifth bits: bit g belongs to group g of 32 elements."""
    scale, minimum = _scales_and_minima(blocks)
    groups = torch.arange(8, dtype=torch.uint8).view(1, 8, 1)
    fifth = (blocks[:, None, 16:48] >> groups) & 1
    codes = _nibbles(blocks[:, 48:176]) + (fifth << 4)
    return (scale * codes - minimum).view(-1, SUPER)


def q6_k(blocks: Tensor) -> Tensor:
    """128 bytes of low nibbles, 64 of high pairs, 16 signed scales of 16 elements each, a scale (float16)."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = torch.cat((low & 0x0F, low >> 4), 2).view(-1, 2, 4, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 1, 4, 1)
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3
    codes = (low | (high << 4)).view(-1, 16, 16).to(torch.int8) - 32
    scales = blocks[:, 192:208].view(torch.int8).float() * _constant(blocks, 104)
    return (scales.unsqueeze(-1) * codes).view(-1, SUPER)


def _scales_and_minima(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Float32 [n, 8, 1] each, of the 8 groups of 32 elements: six bits, the last four groups' are spread."""
    packed = blocks[:, 4:16]
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat((first & 63, (third & 0x0F) | ((first >> 6) << 4)), 1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), 1)
    return (scales * _constant(blocks, 0)).unsqueeze(-1), (minima * _constant(blocks, 1)).unsqueeze(-1)


def _nibbles(codes: Tensor) -> Tensor:
    """[n, 128] bytes -> uint8 [n, 8, 32]: of each 32 bytes the low nibbles are one group, the high ones the next."""
    pairs = codes.reshape(-1, 4, 1, 32)
    return torch.cat((pairs & 0x0F, pairs >> 4), 2).view(-1, 8, 32)


def _constant(blocks: Tensor, index: int) -> Tensor:
    """The block's float16 number `index`, as float32 [n, 1]."""
    return blocks.view(torch.float16)[:, index].float().unsqueeze(-1)
