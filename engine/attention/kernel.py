"""Attention of a block of queries over a block of keys, with the log-sum-exp, in plain torch.

`flash` calls the kernel that torch uses for scaled dot product attention on CPUs (a private operator: it alone
returns the log-sum-exp); `plain` is the formula itself, the fallback where the operator is missing and the
reference that tests compare with. Shapes of both:

    q [batch, heads, queries, head_dim]; k, v [batch, kv_heads, keys, head_dim], kv_heads divides heads
    mask: None or [batch, 1, 1, keys], 0 where a key is visible and -inf where it is not
    -> out like q, lse [batch, heads, queries] (natural logarithm, float32 or better)
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Kernel(Protocol):
    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`causal` aligns the first query with the first key: right only for a chunk against itself."""
        ...


def flash(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The fused kernel. Keys and values may be strided views; the last dimension must be dense."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    return out, lse


def plain(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same in matrix products, in float32 or better."""
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1).to(wide) for x in (k, v))
    scores = (q.to(wide) @ k.transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
    lse = scores.logsumexp(-1)
    return ((scores - lse.unsqueeze(-1)).exp() @ v).to(q.dtype), lse


def best_kernel() -> Kernel:
    """`flash` where this torch has the operator with the properties that the engine relies on."""
    q, k = torch.randn(2, 6, 3, 16), torch.randn(2, 2, 3, 16)
    mask = torch.tensor([[0.0, 0.0, 0.0], [0.0, float("-inf"), float("-inf")]])[:, None, None]
    try:
        same = _close(flash(q, k, k, 0.25, causal=True), plain(q, k, k, 0.25, causal=True))
        same = same and _close(flash(q, k, k, 0.25, mask=mask), plain(q, k, k, 0.25, mask=mask))
    except (AttributeError, RuntimeError, TypeError):
        return plain
    return flash if same else plain


def _close(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    return all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b, strict=True))
