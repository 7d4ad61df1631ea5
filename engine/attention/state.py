"""Partial attention results and their merge by log-sum-exp.

Softmax attention over a set of keys is determined by (output, log-sum-exp of the scores); two disjoint sets
combine exactly: weights exp(lse_i - lse), lse = logaddexp(lse_1, lse_2). (Milakov and Gimelshein 2018;
the same identity is behind flash decoding and cascade attention.)
"""

from __future__ import annotations

import torch
from torch import Tensor


class AttentionState:
    """The running result for all tokens of a step: out [tokens, heads, head_dim], lse [tokens, heads]."""

    def __init__(self, q: Tensor, dtype: torch.dtype) -> None:
        self.out = torch.zeros(q.shape, dtype=dtype)
        self.lse = torch.full(q.shape[:2], float("-inf"), dtype=dtype)

    def merge(self, rows: Tensor | slice, out: Tensor, lse: Tensor) -> None:
        """Add keys for the tokens `rows`: out [rows, heads, head_dim], lse [rows, heads] (natural log)."""
        before = self.lse[rows]
        total = torch.logaddexp(before, lse)
        old, new = (before - total).exp_(), (lse - total).exp_()
        self.out[rows] = self.out[rows] * old.unsqueeze(-1) + out * new.unsqueeze(-1)
        self.lse[rows] = total
