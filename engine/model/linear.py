"""Linear projections, stored in the order that the machine's matrix kernels read fastest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


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
