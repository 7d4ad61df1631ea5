"""The Llama family: pre-norm layers, rotary positions, grouped heads, a gated MLP.

Llama, Mistral, Phi-3, Qwen2, Qwen3 and Gemma 3 differ in sizes, biases, norms, windows, and in MLP or experts, which
ModelConfig says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.attention.base import AttentionStep
from engine.model.calibration import Calibration
from engine.model.config import ModelConfig
from engine.model.elementwise import Elementwise, best_elementwise
from engine.model.experts import ExpertMlp
from engine.model.layers import Embedding, GatedMlp, HeadNorm, RmsNorm
from engine.model.linear import Projection, projection
from engine.model.loading import Loader
from engine.model.rope import Rope, Rotation
from engine.weights.checkpoint import Checkpoint


@dataclass(frozen=True)
class Attention:
    """qkv: the three projections in one matrix, so that one product feeds rotation and cache."""

    index: int
    heads: int
    kv_heads: int
    head_dim: int
    qkv: Projection
    output: Projection
    norm: HeadNorm | None = None

    def __call__(self, ops: Elementwise, x: Tensor, rotation: Rotation, attend: AttentionStep) -> Tensor:
        tokens = len(x)
        heads = self.qkv(x).view(tokens, self.heads + 2 * self.kv_heads, self.head_dim)
        if self.norm is not None:
            self.norm(ops, heads, self.heads, self.kv_heads)
        turned = ops.turn(heads, self.heads + self.kv_heads, rotation)  # q and k at once
        q, k = turned[:, : self.heads], turned[:, self.heads :]
        mixed = attend(self.index, q, k, heads[:, -self.kv_heads :])
        return self.output(mixed.reshape(tokens, self.heads * self.head_dim))


@dataclass(frozen=True)
class Layer:
    attention_norm: RmsNorm
    attention: Attention
    mlp_norm: RmsNorm
    mlp: GatedMlp | ExpertMlp
    after_attention: RmsNorm | None = None
    after_mlp: RmsNorm | None = None
    windowed: bool = False

    def __call__(
        self, ops: Elementwise, x: Tensor, added: Tensor | None, rotation: Rotation, attend: AttentionStep
    ) -> Tensor:
        """x gets what the layer before computed, and this layer's attention; the MLP's output is returned."""
        mixed = self.attention(ops, self.attention_norm(ops, x, added), rotation, attend)
        if self.after_attention is not None:
            mixed = self.after_attention(ops, mixed, None)
        out = self.mlp(ops, self.mlp_norm(ops, x, mixed))
        return out if self.after_mlp is None else self.after_mlp(ops, out, None)


class LlamaDecoder:
    """A `Decoder`. The views that it hands to attention share memory within a step and may be strided."""

    def __init__(
        self,
        config: ModelConfig,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        calibration: Calibration | None = None,
    ) -> None:
        loader = Loader(checkpoint, dtype, calibration)
        self.config = config
        self.dtype = dtype
        self.rope = Rope(config)
        self._window_rope = self.rope if config.window_rope_theta is None else Rope(_in_windows(config))
        self._ops = best_elementwise(config, dtype)
        scale = float(torch.tensor(config.embedding_scale, dtype=dtype))
        self.embed = Embedding(loader.matrix("model.embed_tokens", config.vocab_size, config.hidden_size), scale)
        self._layers = [_load_layer(config, loader, index) for index in range(config.layers)]
        self._norm = loader.norm("model.norm")
        self._head = projection(self.embed.weight if config.tied_head else _load_head(config, loader))

    @torch.inference_mode()
    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        """See `Decoder.forward`."""
        x, added = self._layers_over(ids, positions, attend)
        return self._head(self._norm(self._ops, x[rows], added[rows])).float()

    @torch.inference_mode()
    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        """See `Decoder.hidden`."""
        return self._norm(self._ops, *self._layers_over(ids, positions, attend)).float()

    def _layers_over(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> tuple[Tensor, Tensor]:
        """The residual stream and what the last layer adds to it, both [tokens, hidden_size]."""
        rotation = self.rope.at(positions)
        in_windows = rotation if self._window_rope is self.rope else self._window_rope.at(positions)
        x, added = self.embed(ids), None
        for layer in self._layers:
            added = layer(self._ops, x, added, in_windows if layer.windowed else rotation, attend)
        assert added is not None
        return x, added


def _load_head(config: ModelConfig, loader: Loader) -> Tensor:
    return loader.matrix("lm_head", config.vocab_size, config.hidden_size)


def _load_layer(config: ModelConfig, loader: Loader, index: int) -> Layer:
    prefix = f"model.layers.{index}"
    sandwich = config.sandwich_norm
    return Layer(
        attention_norm=loader.norm(f"{prefix}.input_layernorm"),
        attention=_load_attention(config, loader, index),
        mlp_norm=loader.norm(f"{prefix}.{'pre_feedforward' if sandwich else 'post_attention'}_layernorm"),
        mlp=_load_block(config, loader, index),
        after_attention=loader.norm(f"{prefix}.post_attention_layernorm") if sandwich else None,
        after_mlp=loader.norm(f"{prefix}.post_feedforward_layernorm") if sandwich else None,
        windowed=config.window is not None and index not in config.whole_layers,
    )


def _in_windows(config: ModelConfig) -> ModelConfig:
    assert config.window_rope_theta is not None
    return replace(config, rope_theta=config.window_rope_theta, rope_scaling=None)


def _load_attention(config: ModelConfig, loader: Loader, index: int) -> Attention:
    prefix = f"model.layers.{index}.self_attn"
    q_size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim
    parts = {f"{prefix}.q_proj": q_size, f"{prefix}.k_proj": kv_size, f"{prefix}.v_proj": kv_size}
    if loader.checkpoint.has(f"{prefix}.qkv_proj.weight"):
        parts = {f"{prefix}.qkv_proj": q_size + 2 * kv_size}
    return Attention(
        index=index,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        qkv=loader.fused(parts, config.hidden_size, config.attention_bias),
        output=loader.fused({f"{prefix}.o_proj": config.hidden_size}, q_size, config.output_bias),
        norm=_load_head_norm(config, loader, prefix) if config.head_norm else None,
    )


def _load_head_norm(config: ModelConfig, loader: Loader, prefix: str) -> HeadNorm:
    queries, keys = (loader.norm(f"{prefix}.{name}_norm", config.head_dim) for name in "qk")
    if config.query_scale is not None:  # attention scales by the head's width: what that leaves over is here
        queries = replace(queries, weight=queries.weight * (config.query_scale * config.head_dim**0.5))
    return HeadNorm(queries, keys)


def _load_block(config: ModelConfig, loader: Loader, index: int) -> GatedMlp | ExpertMlp:
    prefix = f"model.layers.{index}.mlp"
    if config.experts is None or index in config.dense_layers:
        return _load_mlp(config, loader, prefix, config.intermediate_size)
    each = (f"{prefix}.experts.{expert}" for expert in range(config.experts.count))
    return ExpertMlp(
        router=projection(loader.matrix(f"{prefix}.gate", config.experts.count, config.hidden_size)),
        experts=tuple(_load_mlp(config, loader, name, config.experts.inner) for name in each),
        chosen=config.experts.chosen,
        normalised=config.experts.normalised,
    )


def _load_mlp(config: ModelConfig, loader: Loader, prefix: str, inner: int) -> GatedMlp:
    parts = {f"{prefix}.gate_proj": inner, f"{prefix}.up_proj": inner}
    if loader.checkpoint.has(f"{prefix}.gate_up_proj.weight"):
        parts = {f"{prefix}.gate_up_proj": 2 * inner}
    return GatedMlp(
        gate_up=loader.fused(parts, config.hidden_size, config.mlp_bias),
        down=loader.fused({f"{prefix}.down_proj": config.hidden_size}, inner, config.mlp_bias),
        activation=config.activation,
    )
