"""What a decoder asks of attention: one call per layer, nothing about requests, pages or caches."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class AttentionStep(Protocol):
    """Attention for the tokens of one engine step, already bound to their KV slots.

    A call writes `k` and `v` of the step's tokens into the KV pool of `layer` and returns the attention of
    each query over everything its request has known up to and including itself.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim] -> [tokens, heads, head_dim]."""
        ...
