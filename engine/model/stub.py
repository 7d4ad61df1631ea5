"""A decoder whose next token is a pure function of every token it has known, read back through attention.

Each token writes a few small integers, hashed from (id, position), as its value; all scores are equal, so that
attention returns their mean over the context. Mean times length is an exact integer sum, and the sum decides the
next token: one wrong, stale or missing KV slot anywhere changes the output. No weights, any vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.base import AttentionStep
from engine.model.config import ModelConfig

_DIM = 16
_DIGIT = 64


class StubDecoder:
    """Needs a float64 KV pool: sums stay exact for contexts of millions of tokens."""

    def __init__(self, vocab_size: int = 997, max_context: int = 4096, eos_ids: frozenset[int] = frozenset()) -> None:
        self.config = ModelConfig(
            "stub", vocab_size, _DIM, _DIM, layers=1, heads=2, kv_heads=1, head_dim=_DIM,
            max_context=max_context, eos_ids=eos_ids,
        )  # fmt: skip

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        """See `engine.model.base.Decoder`."""
        return self._logits(_sums(ids, positions, attend)[rows])

    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        """See `engine.model.base.Decoder`: the sums themselves."""
        return _sums(ids, positions, attend).float()

    def _logits(self, sums: Tensor) -> Tensor:
        weights = torch.tensor([pow(31, i, 1_000_003) for i in range(_DIM)])
        seeds = (sums * weights).sum(-1) % 1_000_003
        tokens = torch.arange(self.config.vocab_size)
        return ((seeds.unsqueeze(1) * 7919 + tokens * 104_729) % 1_000_003).float() / 100_000


def _sums(ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
    """int64 [tokens, _DIM]: the digits of every token up to each, added up."""
    values = _digits(ids, positions).unsqueeze(1)
    query = torch.zeros(len(ids), 2, _DIM, dtype=torch.float64)
    mean = attend(0, query, torch.zeros_like(values), values)[:, 0]
    return (mean * (positions + 1).unsqueeze(1)).round().to(torch.int64)


def _digits(ids: Tensor, positions: Tensor) -> Tensor:
    """float64 [tokens, _DIM] of integers below `_DIGIT`, a hash of (id, position)."""
    lanes = torch.arange(1, _DIM + 1)
    mixed = (ids.unsqueeze(1) * 2_654_435_761 + positions.unsqueeze(1) * 40_503) * lanes + lanes * lanes * 97
    mixed = (mixed ^ (mixed >> 15)) * 2_246_822_519
    return ((mixed ^ (mixed >> 13)) % _DIGIT).to(torch.float64)
