"""The shape of a decoder, in one vocabulary for GGUF and Hugging Face configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelConfig:
    """A Llama-family decoder. Sizes count elements; `max_context` counts tokens."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_context: int
    rms_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    tied_head: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    eos_ids: frozenset[int] = field(default_factory=frozenset)
    bos_id: int | None = None
