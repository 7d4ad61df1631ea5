"""Which attention serves this machine and model: the C kernel where it can be compiled and is right, else torch's."""

from __future__ import annotations

import logging

import torch

from engine.attention.base import Attention
from engine.attention.cpu import CPUAttention
from engine.attention.kernel import plain
from engine.attention.kv import KVTensors
from engine.attention.native import NativeAttention
from engine.attention.plan import Segment, plan_attention
from engine.attention.window import WindowedAttention
from engine.errors import StartError
from engine.model.config import ModelConfig
from engine.native.build import library, openmp

log = logging.getLogger("sapwood.engine")

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 0.05}
"""By the dtypes that the kernel has: how far it may be from the formula for values about 1."""

LANES = 16


def best_attention(kv: KVTensors, kernels: str = "auto") -> Attention:
    """`auto`, `native` (StartError where it can't be had) or `torch`."""
    whole = _over_all(kv, kernels)
    return whole if kv.config.window is None else WindowedAttention(whole)


def _over_all(kv: KVTensors, kernels: str) -> Attention:
    if kernels == "torch" or not _fits(kv.config, kv.dtype):
        if kernels == "native":
            raise StartError(
                f"the C kernels serve {kv.dtype} and heads of {kv.config.head_dim} not: use --kernels auto"
            )
        return CPUAttention(kv)
    if library() is None or openmp() is None:
        if kernels == "native":
            raise StartError("the C kernels can't be compiled here: install gcc or clang, or use --kernels torch")
        return CPUAttention(kv)
    if not is_right(kv.config, kv.dtype):
        log.warning("the C kernel computes wrong results on this machine: attention runs on torch operators")
        return CPUAttention(kv)
    return NativeAttention(kv)


def is_right(config: ModelConfig, dtype: torch.dtype) -> bool:
    """Whether the kernel agrees with the formula on a small step of every kind of span. Takes a few milliseconds."""
    segments = [
        Segment([(0, 140), (300, 5)], [(305, 1)], 1),
        Segment([(0, 140)], [(400, 37)], 37),
        Segment([], [(500, 3)], 3),
    ]
    plan = plan_attention(segments)
    generator = torch.Generator().manual_seed(0)
    kv = KVTensors(config, 512, dtype, layers=1)
    for pool in (*kv.keys, *kv.values):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    q, k, v = (
        torch.randn(plan.tokens, heads, config.head_dim, generator=generator).to(dtype)
        for heads in (config.heads, config.kv_heads, config.kv_heads)
    )
    fast = NativeAttention(kv).step(plan)(0, q, k, v)
    slow = CPUAttention(kv, plain).step(plan)(0, q, k, v)
    return torch.allclose(fast.float(), slow.float(), atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


def _fits(config: ModelConfig, dtype: torch.dtype) -> bool:
    return dtype in TOLERANCES and config.head_dim % LANES == 0 and config.heads % config.kv_heads == 0
