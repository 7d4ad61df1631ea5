"""Paged attention against the formula, in the interpreter."""

from __future__ import annotations

import random

import pytest
import torch

from engine.kernels.attention import Batch, paged_attention, tiles_of

CASES = [
    # head, key heads, group, page, rows, splits, window, soft cap
    (64, 2, 1, 16, 16, 1, None, None),
    (80, 1, 4, 1, 16, 1, None, None),
    (96, 2, 2, 16, 16, 3, None, None),
    (128, 1, 8, 64, 16, 2, None, 30.0),
    (256, 1, 2, 16, 16, 2, 9, None),
    (64, 2, 3, 1, 32, 1, 5, 50.0),
]
MIXES = [[(40, 1)], [(1, 1), (33, 7), (17, 17)], [(70, 1), (5, 1), (64, 1)]]
"""(tokens known, of which this step's)."""


def reference(q, keys, values, scale, window, cap):
    """One request: q [n, heads, head], keys and values [m, heads, head]; the queries are the last tokens."""
    scores = torch.einsum("qhd,khd->hqk", q, keys) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    position = torch.arange(len(keys) - len(q), len(keys))[:, None]
    column = torch.arange(len(keys))[None]
    hidden = column > position
    if window:
        hidden |= column <= position - window
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values), scores.logsumexp(-1).T


TOGETHER = [*((case, MIXES[1]) for case in CASES), (CASES[2], MIXES[0]), (CASES[3], MIXES[2])]


@pytest.mark.parametrize(("case", "mix"), TOGETHER, ids=str)
def test_equal_to_the_formula(case, mix):
    head, key_heads, group, page, rows, splits, window, cap = case
    generator = torch.Generator().manual_seed(2)
    order = random.Random(3)
    pools = torch.randn(2, 200 // page + 12, page, key_heads, head, generator=generator)
    free = list(range(pools.shape[1]))
    order.shuffle(free)
    counts = [count for _, count in mix]
    q = torch.randn(sum(counts), key_heads * group, head, generator=generator)
    pages, page_start, held = [], [], []
    for length, _ in mix:
        page_start.append(len(pages))
        own = [free.pop() for _ in range(-(-length // page))]
        pages += own
        held.append(torch.cat([pools[:, number] for number in own], 1)[:, :length])
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    tiles = tiles_of(counts, group, rows)
    lengths = [length for length, _ in mix]
    parts = (starts, lengths, page_start, pages, *tiles)
    batch = Batch(*(torch.tensor(part, dtype=torch.int32) for part in parts), longest=max(lengths))
    scale = head**-0.5
    out, lse = paged_attention(
        q, pools[0], pools[1], batch, scale, rows=rows, splits=splits, columns=16, window=window, soft_cap=cap
    )
    for (length, count), start, (keys, values) in zip(mix, starts, held, strict=False):
        own = q[start : start + count]
        expected, sums = reference(
            own, keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1), scale, window, cap
        )
        torch.testing.assert_close(out[start : start + count], expected, atol=2e-5, rtol=2e-5)
        torch.testing.assert_close(lse[start : start + count], sums, atol=2e-5, rtol=2e-5)
        assert length >= count


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_keys_and_values_of_eight_bits(dtype):
    generator = torch.Generator().manual_seed(4)
    pools = torch.randn(2, 40, 1, 1, 64, generator=generator) * 3
    scales = (0.5, 0.25)
    stored = [(pool / scale).to(dtype) for pool, scale in zip(pools, scales, strict=True)]
    q = torch.randn(1, 4, 64, generator=generator)
    one = lambda *values: torch.tensor(values, dtype=torch.int32)  # noqa: E731
    batch = Batch(one(0, 1), one(40), one(0), one(*range(40)), one(0), one(0), longest=40)
    out, _ = paged_attention(q, *stored, batch, 0.125, rows=16, columns=16, key_scale=scales[0], value_scale=scales[1])
    read = [(pool.float() * scale)[:, 0].repeat_interleave(4, 1) for pool, scale in zip(stored, scales, strict=True)]
    torch.testing.assert_close(out, reference(q, *read, 0.125, None, None)[0], atol=1e-4, rtol=1e-4)
