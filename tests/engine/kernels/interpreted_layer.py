"""Norm, gate, rotation and the write to the pool against torch, in the interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.layer import gate, norm, rope_and_write


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [48, 640, 1024])
@pytest.mark.parametrize("residual", [True, False])
def test_norm(width, dtype, residual):
    x, added, weight = torch.randn(5, width).to(dtype), torch.randn(5, width).to(dtype), torch.randn(width)
    total = (x + added) if residual else x.clone()
    out = norm(x, added if residual else None, weight, 1e-5)
    torch.testing.assert_close(x, total, atol=0, rtol=0 if dtype is torch.float32 else 2**-7)  # one step of bfloat16
    expected = F.rms_norm(total.float(), (width,), weight, 1e-5)
    torch.testing.assert_close(out.float(), expected, atol=1e-5 if dtype is torch.float32 else 0.04, rtol=0.01)


@pytest.mark.parametrize("width", [32, 1000, 1536])
def test_gate(width):
    x = torch.randn(3, 2 * width)
    torch.testing.assert_close(gate(x, block=512), F.silu(x[:, :width]) * x[:, width:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head", [64, 80, 96, 128])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.5, 2.0)])
def test_rotation_and_write(head, scales):
    queries, kept, tokens = 4, 2, 3
    heads = torch.randn(tokens, queries + 2 * kept, head)
    angles = torch.randn(tokens, head // 2)
    pools = torch.zeros(2, 9, kept, head)
    slots = torch.tensor([7, 0, 4])
    low, high = heads[..., : head // 2], heads[..., head // 2 :]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    turned = torch.cat((low * cos - high * sin, high * cos + low * sin), -1)
    values = heads[:, -kept:].clone()
    q = rope_and_write(
        heads, angles.cos(), angles.sin(), *pools, slots, queries, key_scale=scales[0], value_scale=scales[1]
    )
    torch.testing.assert_close(q, turned[:, :queries])
    torch.testing.assert_close(pools[0, slots] * scales[0], turned[:, queries:-kept])
    torch.testing.assert_close(pools[1, slots] * scales[1], values)
    assert not pools[:, [1, 2, 3, 5, 6, 8]].any()
