"""The shape of a decoder, in one vocabulary for GGUF and Hugging Face configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import StartError

ARCHITECTURES = ("gemma3_text", "llama", "mistral", "phi3", "qwen2", "qwen3", "qwen3_moe")
"""By their names in Hugging Face configurations. All are one decoder with the options of `ModelConfig`."""


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in the place of the MLP: each token goes to `chosen` of `count`."""

    count: int
    chosen: int
    inner: int
    """What `intermediate_size` is to the MLP."""
    normalised: bool
    """The weights of the chosen ones sum to 1."""


@dataclass(frozen=True)
class ModelConfig:
    """A Llama-family decoder. Sizes count elements; `max_context` counts tokens.

    `rope_scaling` is None or a mapping whose `rope_type` says how to read it: `linear` (factor), `llama3`
    (factor, low_freq_factor, high_freq_factor, original_max_position_embeddings), `yarn` (factor,
    original_max_position_embeddings, beta_fast, beta_slow, attention_factor, mscale, …) or `factors` (factors: one
    divisor for each rotary frequency, which is how GGUF files store llama3 scaling; attention_factor).
    """

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
    head_norm: bool = False
    """Queries and keys are normed, head by head, before they turn."""
    sandwich_norm: bool = False
    """What attention and MLP compute is normed once more before it is added."""
    activation: str = "silu"
    """Of the gate: `silu` or `gelu_tanh`."""
    embedding_scale: float = 1.0
    query_scale: float | None = None
    """Scores are queries times keys times this; head_dim ** -0.5 where it is None."""
    window: int | None = None
    """Newest tokens that a token sees, itself included, in all layers but `whole_layers`."""
    whole_layers: frozenset[int] = frozenset()
    window_rope_theta: float | None = None
    """Of the layers with a window, which turn unscaled; None where all layers turn alike."""
    experts: Experts | None = None
    dense_layers: frozenset[int] = frozenset()
    """Layers of a mixture of experts that have an MLP all the same."""
    eos_ids: frozenset[int] = field(default_factory=frozenset)
    bos_id: int | None = None

    @property
    def parameters(self) -> int:
        """How many weights the matrices hold; norms and biases are too few to count."""
        attention = self.hidden_size * self.head_dim * 2 * (self.heads + self.kv_heads)
        mlp = 3 * self.hidden_size * self.intermediate_size
        mixed, dense = 0, self.layers
        if self.experts:
            dense = len(self.dense_layers)
            mixed = (self.layers - dense) * 3 * self.hidden_size * self.experts.inner * self.experts.count
        heads = 1 if self.tied_head else 2
        return self.layers * attention + dense * mlp + mixed + heads * self.vocab_size * self.hidden_size

    def __post_init__(self) -> None:
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise StartError(f"the model's {self.heads} heads can't share {self.kv_heads} key-value heads evenly")
        if self.head_dim % 2:
            raise StartError(f"the model's head size {self.head_dim} is odd and can't be rotated")


def require_supported(architecture: str, where: object) -> None:
    """StartError, with the list of what is supported, for an architecture that no decoder here computes."""
    if architecture not in ARCHITECTURES:
        raise StartError(
            f"{where}: architecture {architecture!r} is not supported; supported are {', '.join(ARCHITECTURES)}"
        )
