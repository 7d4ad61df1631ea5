"""Attention over paged keys and values: chunks of prompts and decode steps in one kernel, with log-sum-exp.

A tile is some rows of one request's queries; a row is one query head of one token, and the query heads that share a
key head lie in one tile, so that keys are read once for all of them. Long contexts are cut into `splits` that run side
by side, and their results are merged (Dao et al. 2023, flash decoding). Pages are numbered from 0 in the pools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

NEGATIVE = tl.constexpr(-1.0e30)
"""In the place of minus infinity, which would make differences of it not a number."""
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def attend(
    q, keys, values, out, lse,
    tile_request, tile_row, query_start, key_length, page_start, pages,
    scale, soft_cap, key_scale, value_scale,
    q_token, q_head, page_stride, slot_stride, head_stride, out_split, out_token, out_head, lse_split, lse_token,
    split_size, window,
    GROUP: tl.constexpr, PAGE: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, CAPPED: tl.constexpr, WINDOWED: tl.constexpr,
):  # fmt: skip
    """Grid: (tiles, key heads, splits). See `paged_attention` for shapes."""
    tile, key_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    request, first = tl.load(tile_request + tile), tl.load(tile_row + tile)
    start, stop = tl.load(query_start + request), tl.load(query_start + request + 1)
    length, page_base = tl.load(key_length + request), tl.load(page_start + request)

    row = first + tl.arange(0, ROWS)
    token = start + row // GROUP
    head = key_head * GROUP + row % GROUP
    there = token < stop
    position = length - (stop - start) + row // GROUP  # of each row's token; the queries are the last tokens

    width = tl.arange(0, WIDTH)
    inside = width < HEAD
    query = tl.load(
        q + token[:, None] * q_token + head[:, None] * q_head + width[None, :],
        mask=there[:, None] & inside[None, :],
        other=0.0,
    )

    last = tl.minimum(length, length - (stop - start) + (first + ROWS - 1) // GROUP + 1)
    begin, end = split * split_size, tl.minimum((split + 1) * split_size, last)
    if WINDOWED:
        seen = length - (stop - start) + first // GROUP - window + 1
        begin = tl.maximum(begin, tl.maximum(seen, 0) // COLUMNS * COLUMNS)

    maximum = tl.full((ROWS,), NEGATIVE, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, WIDTH), tl.float32)
    for at in range(begin, end, COLUMNS):
        column = at + tl.arange(0, COLUMNS)
        known = column < end
        page = tl.load(pages + page_base + column // PAGE, mask=known, other=0).to(tl.int64)
        place = page * page_stride + (column % PAGE) * slot_stride + key_head * head_stride
        key = tl.load(keys + place[None, :] + width[:, None], mask=known[None, :] & inside[:, None], other=0.0)
        scores = tl.dot(query, key.to(query.dtype), input_precision="ieee") * (scale * key_scale)
        if CAPPED:
            scores = (2.0 / (1.0 + tl.exp2(scores * (-2.0 * LOG2E / soft_cap))) - 1.0) * soft_cap
        visible = known[None, :] & (column[None, :] <= position[:, None])
        if WINDOWED:
            visible &= column[None, :] > position[:, None] - window
        scores = tl.where(visible, scores, NEGATIVE)
        highest = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.where(visible, tl.exp2((scores - highest[:, None]) * LOG2E), 0.0)
        shrink = tl.exp2((maximum - highest) * LOG2E)
        value = tl.load(values + place[:, None] + width[None, :], mask=known[:, None] & inside[None, :], other=0.0)
        mixed = mixed * shrink[:, None]
        mixed += tl.dot(weights.to(query.dtype), value.to(query.dtype), input_precision="ieee")
        total = total * shrink + tl.sum(weights, 1)
        maximum = highest

    safe = tl.where(total > 0.0, total, 1.0)
    result = mixed * (value_scale / safe)[:, None]
    tl.store(
        out + split * out_split + token[:, None] * out_token + head[:, None] * out_head + width[None, :],
        result.to(out.dtype.element_ty),
        mask=there[:, None] & inside[None, :],
    )
    tl.store(
        lse + split * lse_split + token * lse_token + head,
        tl.where(total > 0.0, maximum + tl.log(safe), float("-inf")),
        mask=there,
    )


@triton.jit
def merge(
    parts, lses, out, lse, splits, part_split, part_row, lse_split,
    HEAD: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Grid: (tokens * heads,). Partial results of one row, weighed by their log-sum-exp."""
    row = tl.program_id(0)
    width = tl.arange(0, WIDTH)
    inside = width < HEAD
    highest = NEGATIVE
    for split in range(splits):
        highest = tl.maximum(highest, tl.load(lses + split * lse_split + row))
    total, mixed = 0.0, tl.zeros((WIDTH,), tl.float32)
    for split in range(splits):
        weight = tl.exp2((tl.load(lses + split * lse_split + row) - highest) * LOG2E)
        part = tl.load(parts + split * part_split + row * part_row + width, mask=inside, other=0.0)
        mixed += weight * part.to(tl.float32)
        total += weight
    safe = tl.where(total > 0.0, total, 1.0)
    tl.store(out + row * part_row + width, (mixed / safe).to(out.dtype.element_ty), mask=inside)
    tl.store(lse + row, tl.where(total > 0.0, highest + tl.log(safe), float("-inf")))


@dataclass(frozen=True)
class Batch:
    """Whose queries and keys a step has. All int32 on the device of the pools; tiles are made by `tiles_of`.

    query_start [requests + 1]: tokens in front of each request's. key_length [requests]: tokens that it has, those of
    this step included and last. page_start [requests]: where its pages begin in `pages`.
    """

    query_start: Tensor
    key_length: Tensor
    page_start: Tensor
    pages: Tensor
    tile_request: Tensor
    tile_row: Tensor
    longest: int
    """The largest of `key_length`."""


def tiles_of(counts: list[int], group: int, rows: int) -> tuple[list[int], list[int]]:
    """Each tile's request and first row, for requests of `counts` tokens this step."""
    pairs = [(request, row) for request, count in enumerate(counts) for row in range(0, count * group, rows)]
    return [request for request, _ in pairs], [row for _, row in pairs]


def warps_for(rows: int) -> int:
    """With fewer, a tile of a prompt does not fit into the registers of an sm_90."""
    return 8 if rows >= 64 else 4


def paged_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    batch: Batch,
    scale: float,
    *,
    rows: int,
    splits: int = 1,
    columns: int = 64,
    window: int | None = None,
    soft_cap: float | None = None,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """q [tokens, heads, head]; keys, values [pages, page size, key heads, head], of any dtype that loads as floats
    -> out like q, lse float32 [tokens, heads] (natural logarithm; -inf where a row sees nothing).

    `rows` must be what the batch's tiles were made with; `columns` keys are read at a time.
    """
    tokens, heads, head = q.shape
    _, page, key_heads, _ = keys.shape
    parts = q.new_empty((splits, tokens, heads, head), dtype=torch.float32 if splits > 1 else q.dtype)
    lses = torch.empty((splits, tokens, heads), dtype=torch.float32, device=q.device)
    split_size = -(-batch.longest // (splits * columns)) * columns
    grid = (len(batch.tile_request), key_heads, splits)
    constants: dict[str, Any] = {"GROUP": heads // key_heads, "PAGE": page, "HEAD": head}
    constants |= {"WIDTH": triton.next_power_of_2(head), "ROWS": rows, "COLUMNS": columns}
    constants |= {"CAPPED": soft_cap is not None, "WINDOWED": window is not None}
    attend[grid](
        q, keys, values, parts, lses,
        batch.tile_request, batch.tile_row, batch.query_start, batch.key_length, batch.page_start, batch.pages,
        scale, soft_cap or 1.0, key_scale, value_scale,
        q.stride(0), q.stride(1), keys.stride(0), keys.stride(1), keys.stride(2),
        parts.stride(0), parts.stride(1), parts.stride(2), lses.stride(0), lses.stride(1),
        split_size, window or 0,
        **constants, num_warps=warps_for(rows),
    )  # fmt: skip
    if splits == 1:
        return parts[0], lses[0]
    out, lse = torch.empty_like(q), torch.empty_like(lses[0])
    merge[(tokens * heads,)](
        parts, lses, out, lse, splits, parts.stride(0), parts.stride(2), lses.stride(0),
        HEAD=head, WIDTH=triton.next_power_of_2(head),
    )  # fmt: skip
    return out, lse
