"""CPU attention over spans equals one causal softmax per request."""

from __future__ import annotations

import pytest
import torch

from engine.attention.cpu import CPUAttention
from engine.attention.kernel import flash, plain
from engine.attention.kv import KVTensors
from engine.attention.plan import Segment, plan_attention
from engine.model.config import ModelConfig

SHAPE = ModelConfig("stub", 8, 8, 8, layers=1, heads=6, kv_heads=2, head_dim=16, max_context=64)


def reference(q, keys, values):
    """q [tokens, heads, dim] are the last tokens of keys, values [known, kv_heads, dim]."""
    group = q.shape[1] // keys.shape[1]
    k, v = (x.repeat_interleave(group, 1).transpose(0, 1) for x in (keys, values))
    scores = q.transpose(0, 1) @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[1] - q.shape[0])
    return (scores.masked_fill(~visible, float("-inf")).softmax(-1) @ v).transpose(0, 1)


@pytest.mark.parametrize("kernel", [flash, plain])
@pytest.mark.parametrize(
    "segments",
    [
        [Segment([], [(0, 7)], 7)],
        [Segment([(0, 40)], [(40, 9)], 9), Segment([(0, 30), (60, 4)], [(64, 1)], 1)],
        [Segment([(0, 33), (100 + 8 * i, i)], [(100 + 8 * i + i, 1)], 1) for i in range(5)],
        [Segment([(0, 300)], [(400, 1)], 1), Segment([(0, 20), (500, 200)], [(700, 3)], 3)],
        [Segment([], [(9, 1)], 1)],
        [Segment([(0, 20), (40, 30), (90, 7)], [(200, 5)], 5), Segment([(0, 20), (40, 30)], [(300, 2)], 2)],
    ],
)
def test_equals_causal_softmax(kernel, segments):
    torch.manual_seed(0)
    kv = KVTensors(SHAPE, 1024, torch.float64)
    kv.keys[0].normal_()
    kv.values[0].normal_()
    tokens = sum(segment.count for segment in segments)
    q = torch.randn(tokens, 6, 16, dtype=torch.float64)
    k, v = torch.randn(2, tokens, 2, 16, dtype=torch.float64)
    out = CPUAttention(kv, kernel).step(plan_attention(segments))(0, q, k, v)
    first = 0
    for segment in segments:
        runs = [*segment.context, *segment.slots]
        slots = torch.cat([torch.arange(start, start + length) for start, length in runs])
        keys, values = (x[:, slots].transpose(0, 1) for x in (kv.keys[0], kv.values[0]))
        rows = slice(first, first + segment.count)
        torch.testing.assert_close(out[rows], reference(q[rows], keys, values))
        first += segment.count


def test_bfloat16_stays_close():
    torch.manual_seed(0)
    kv = KVTensors(SHAPE, 256, torch.bfloat16)
    kv.keys[0].normal_()
    kv.values[0].normal_()
    segments = [Segment([(0, 60), (100, 5)], [(105, 1)], 1), Segment([(0, 60)], [(120, 20)], 20)]
    q = torch.randn(21, 6, 16, dtype=torch.bfloat16)
    k, v = torch.randn(2, 21, 2, 16, dtype=torch.bfloat16)
    plan = plan_attention(segments)
    fast, slow = (CPUAttention(kv, kernel).step(plan)(0, q, k, v).float() for kernel in (flash, plain))
    torch.testing.assert_close(fast, slow, atol=0.03, rtol=0.03)
