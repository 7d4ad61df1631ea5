"""Attention of a block of queries over a block of keys, with the log-sum-exp, in plain torch.

`flash` calls the kernel that torch uses for scaled dot product attention on CPUs (a private operator: it alone
returns the log-sum-exp); `plain` is the formula itself, the fallback where the operator is missing and the
reference that tests compare with. Shapes of both, with `queries` counting tokens:

    q [kv_heads, queries, head_dim], k and v [kv_heads, keys, head_dim] -> out like q, lse [kv_heads, queries]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Kernel = Callable[[Tensor, Tensor, Tensor, bool, float], tuple[Tensor, Tensor]]


def flash(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """`causal` aligns the first query with the first key: right only for a chunk against itself."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), 0.0, causal, scale=scale
    )
    return out.squeeze(0), lse.squeeze(0)


def plain(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The same in matrix products, in float32 or better."""
    wide = torch.promote_types(q.dtype, torch.float32)
    if q.shape[0] != k.shape[0]:
        k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    scores = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * scale
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
    lse = scores.logsumexp(-1)
    return ((scores - lse.unsqueeze(-1)).exp() @ v.to(wide)).to(q.dtype), lse


def best_kernel() -> Kernel:
    """`flash` where this torch has the operator with the properties that the engine relies on."""
    try:
        q = torch.randn(2, 3, 16)
        expected, actual = plain(q, q, q, True, 0.25), flash(q, q, q, True, 0.25)
        same = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, actual, strict=True))
    except (AttributeError, RuntimeError, TypeError):
        return plain
    return flash if same else plain
