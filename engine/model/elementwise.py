"""What stands between the matrix products of a layer: norm with the residual, gate, rotation.

Two implementations of one `Elementwise`: torch's operators, and a C kernel that makes one pass over the rows for each.
Both compute in float32 and round the result to the dtype of x.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.rope import Rotation, rotate
from engine.native.build import library, openmp

LANES = 16
DTYPES = (torch.float32, torch.bfloat16)


class Elementwise(Protocol):
    def norm(self, x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """x += added, in place; returns x / rms(x) * weight. x, added: [tokens, width], contiguous; weight: float32
        [width]."""
        ...

    def gate(self, x: Tensor) -> Tensor:
        """[tokens, gate and up side by side] -> silu(gate) * up."""
        ...

    def turn(self, heads: Tensor, count: int, rotation: Rotation) -> Tensor:
        """The first `count` of the heads [tokens, heads, head_dim], turned; `heads` may be changed."""
        ...


class TorchElementwise:
    def norm(self, x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        if added is not None:
            x.add_(added)
        return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), eps)

    def gate(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        return F.silu(gate).mul_(up)

    def turn(self, heads: Tensor, count: int, rotation: Rotation) -> Tensor:
        return rotate(heads[:, :count], Rotation(*(part.to(heads.dtype) for part in rotation)))


class _Call(ctypes.Structure):
    """The kernel's struct Elementwise."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "width", "bits", "threads")),
        *((name, c_void_p) for name in ("parallel", "x", "other", "out", "a", "b")),
        *((name, c_int64) for name in ("stride", "parts")),
        ("eps", c_float),
        ("next", c_int64),
    ]


class NativeElementwise:
    """For contiguous tensors on a CPU, in float32 or bfloat16, with rows of whole vectors."""

    def __init__(self) -> None:
        kernel, runtime = library(), openmp()
        if kernel is None or runtime is None:
            raise RuntimeError("the C kernels are not available")
        self._kernel = kernel
        self._parallel = runtime[0]

    def norm(self, x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        assert x.is_contiguous()
        out = torch.empty_like(x)
        call = self._call(x, x.shape[-1])
        call.other, call.out = None if added is None else added.data_ptr(), out.data_ptr()
        call.a, call.eps = weight.data_ptr(), eps
        self._kernel.sapwood_norm(ctypes.byref(call))
        return out

    def gate(self, x: Tensor) -> Tensor:
        out = x.new_empty(len(x), x.shape[-1] // 2)
        call = self._call(x, out.shape[-1])
        call.out = out.data_ptr()
        self._kernel.sapwood_gate(ctypes.byref(call))
        return out

    def turn(self, heads: Tensor, count: int, rotation: Rotation) -> Tensor:
        call = self._call(heads, heads.shape[-1])
        call.a, call.b, call.parts = rotation.cos.data_ptr(), rotation.signed_sin.data_ptr(), count
        self._kernel.sapwood_turn(ctypes.byref(call))
        return heads[:, :count]

    def _call(self, x: Tensor, width: int) -> _Call:
        return _Call(
            rows=len(x),
            width=width,
            bits=x.itemsize * 8,
            threads=torch.get_num_threads(),
            parallel=self._parallel,
            x=x.data_ptr(),
            stride=x.stride(0),
        )


def best_elementwise(config: ModelConfig, dtype: torch.dtype) -> Elementwise:
    """The kernel where it is there and fits, else torch."""
    whole = config.hidden_size % LANES == config.intermediate_size % LANES == config.head_dim % (2 * LANES) == 0
    if whole and dtype in DTYPES and library() is not None and openmp() is not None:
        return NativeElementwise()
    return TorchElementwise()
