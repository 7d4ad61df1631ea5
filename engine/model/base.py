"""What the engine asks of a model."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engine.attention.base import AttentionStep
from engine.model.config import ModelConfig


class Decoder(Protocol):
    """A decoder over a flat batch of tokens. It knows positions, but neither requests nor caches."""

    @property
    def config(self) -> ModelConfig: ...

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        """One step.

        ids, positions: int64 [tokens], the tokens of all requests of the step, one after another.
        rows: int64 [n], the indices of the tokens whose next-token logits are wanted.
        Returns float32 logits [n, vocab_size].
        """
        ...

    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        """The step's last hidden states, after the final norm: float32 [tokens, hidden_size]."""
        ...
