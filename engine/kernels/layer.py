"""What stands between the matrix products of a layer, each in one pass over its rows."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def norm_rows(
    x, added, weight, out, width, eps,
    ADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * width
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row + column, mask=inside, other=0.0).to(tl.float32)
    if ADDED:
        value += tl.load(added + row + column, mask=inside, other=0.0).to(tl.float32)
        value = value.to(x.dtype.element_ty)
        tl.store(x + row + column, value, mask=inside)
        value = value.to(tl.float32)
    factor = tl.rsqrt(tl.sum(value * value, 0) / width + eps)
    scaled = value * factor * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + column, scaled.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate_rows(x, out, width, BLOCK: tl.constexpr):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = block * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(x + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + column, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=inside)


@triton.jit
def turn_and_write(
    heads, cos, sin, keys, values, slots,
    token_stride, slot_stride, key_scale, value_scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Grid: (tokens, query, key and value heads). Queries turn where they lie; keys turn into the pool, values go
    there as they are."""
    token, head = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, HALF)
    inside = column < HEAD // 2
    place = heads + token.to(tl.int64) * token_stride + head * HEAD
    low = tl.load(place + column, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(place + HEAD // 2 + column, mask=inside, other=0.0).to(tl.float32)
    if head < QUERIES + KEYS:
        c = tl.load(cos + token * (HEAD // 2) + column, mask=inside, other=0.0)
        s = tl.load(sin + token * (HEAD // 2) + column, mask=inside, other=0.0)
        low, high = low * c - high * s, high * c + low * s
    if head < QUERIES:
        tl.store(place + column, low.to(heads.dtype.element_ty), mask=inside)
        tl.store(place + HEAD // 2 + column, high.to(heads.dtype.element_ty), mask=inside)
    else:
        slot = tl.load(slots + token).to(tl.int64) * slot_stride
        if head < QUERIES + KEYS:
            to, scale = keys + slot + (head - QUERIES) * HEAD, key_scale
        else:
            to, scale = values + slot + (head - QUERIES - KEYS) * HEAD, value_scale
        tl.store(to + column, (low / scale).to(keys.dtype.element_ty), mask=inside)
        tl.store(to + HEAD // 2 + column, (high / scale).to(keys.dtype.element_ty), mask=inside)


def norm(x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """x += added, in place; returns x / rms(x) * weight. x, added: [tokens, width], contiguous; weight [width]."""
    out = x.new_empty(x.shape)
    width = x.shape[-1]
    norm_rows[(len(x),)](
        x, added if added is not None else x, weight, out, width, eps,
        ADDED=added is not None, BLOCK=triton.next_power_of_2(width),
    )  # fmt: skip
    return out


def gate(x: Tensor, block: int = 1024) -> Tensor:
    """[tokens, gate and up side by side] -> silu(gate) * up."""
    width = x.shape[-1] // 2
    out = x.new_empty(len(x), width)
    gate_rows[(len(x), triton.cdiv(width, block))](x, out, width, BLOCK=block)
    return out


def rope_and_write(
    heads: Tensor,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    slots: Tensor,
    queries: int,
    *,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
) -> Tensor:
    """heads [tokens, queries + keys + values, head]: the queries, turned in place, are returned; keys, turned, and
    values are written to `slots` [tokens] of the pools [slots, key heads, head], divided by their scales.

    cos, sin: float32 [tokens, head / 2], in the half-rotation layout.
    """
    tokens, count, head = heads.shape
    turn_and_write[(tokens, count)](
        heads, cos, sin, keys, values, slots,
        heads.stride(0), keys.stride(0), key_scale, value_scale,
        QUERIES=queries, KEYS=keys.shape[1], HEAD=head, HALF=triton.next_power_of_2(head // 2),
    )  # fmt: skip
    return heads[:, :queries]
