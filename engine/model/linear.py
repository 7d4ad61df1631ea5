"""Linear projections, stored in the order that the machine's matrix kernels read fastest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.weights.blocks import Blocks
from engine.weights.quant import BLOCK


class Projection(Protocol):
    """A linear map: [tokens, in] -> [tokens, out]."""

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Linear:
    """weight: [out, in]; bias: [out] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class PackedLinear:
    """A bfloat16 linear whose weight lies in oneDNN's blocked order, which saves reordering in each call."""

    packed: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return product


@dataclass(frozen=True)
class Int4Linear:
    """A linear that multiplies with 4-bit codes: it reads an eighth of what float32 weights take.

    The kernel is fast in bfloat16 only, so x is rounded to it whatever its dtype.

    packed: the codes in the kernel's order; scales: [in / 32, out, 2], so that a weight is
    (code - 8) * scales[..., 0] + scales[..., 1].
    """

    packed: Tensor
    scales: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        rounded = x.to(torch.bfloat16)
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rounded, self.packed, BLOCK, self.scales)
        return product.to(x.dtype) if self.bias is None else product.to(x.dtype) + self.bias


@dataclass(frozen=True)
class ByRows:
    """One map in two forms: `few` for up to `limit` rows (decoding), `many` for more (prompts)."""

    few: Projection
    many: Projection
    limit: int

    def __call__(self, x: Tensor) -> Tensor:
        return self.few(x) if len(x) <= self.limit else self.many(x)


def int4_projection(blocks: Blocks, bias: Tensor | None) -> Int4Linear | None:
    """None where this torch or this shape has no kernel for it."""
    outputs, inputs = blocks.codes.shape
    if blocks.bits != 4 or outputs % 16 or inputs % BLOCK or not hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu"):
        return None
    packed = torch._convert_weight_to_int4pack_for_cpu(blocks.codes.to(torch.int32), 1)
    scale = blocks.scale.float()
    scales = torch.stack([scale, blocks.offset + 8 * scale], -1).transpose(0, 1).contiguous()
    return Int4Linear(packed, scales.to(torch.bfloat16), bias)


def projection(weight: Tensor, bias: Tensor | None = None) -> Projection:
    """The fastest form on this machine. A packed form is a copy: the caller may drop `weight`."""
    if weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and _can_pack():
        return PackedLinear(torch.ops.mkldnn._reorder_linear_weight(weight), bias)
    return Linear(weight, bias)


@cache
def _can_pack() -> bool:
    """Packing is an internal of torch: where it or CPU bfloat16 is absent, plain linears do the same."""
    ops = torch.ops.mkldnn
    needed = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    return all(hasattr(ops, name) for name in needed) and bool(ops._is_mkldnn_bf16_supported())
