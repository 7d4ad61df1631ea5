"""What a decoder asks of attention: one call per layer, nothing about requests, pages or caches."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engine.attention.kv import KVTensors
from engine.attention.plan import AttentionPlan


class AttentionStep(Protocol):
    """Attention for the tokens of one engine step, already bound to their KV slots.

    A call writes `k` and `v` of the step's tokens into the KV pool of `layer` and returns the attention of
    each query over everything its request has known up to and including itself.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim] -> [tokens, heads, head_dim]."""
        ...


class Attention(Protocol):
    """Makes the `AttentionStep` of each engine step over one KV pool."""

    kv: KVTensors

    def step(self, plan: AttentionPlan) -> AttentionStep: ...
