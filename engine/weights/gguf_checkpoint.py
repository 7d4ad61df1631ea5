"""A GGUF file seen as a checkpoint: Hugging Face names and layouts over llama.cpp's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import StartError
from engine.model.config import Experts, ModelConfig, require_supported
from engine.weights.blocks import Blocks, read_blocks
from engine.weights.gguf import Gguf, GgufTensor
from engine.weights.quant import QuantType, dequantise

TOP_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
}
GATE_UP = "mlp.gate_up_proj"
"""Where a file has no `ffn_gate`, its `ffn_up` is both."""
SANDWICH = {"post_attention_layernorm": "post_attention_norm"}
"""Where the norm of this name is behind attention, not before the MLP."""
EXPERT_NAMES = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
"""All experts of a layer are one tensor, one after another."""
GEMMA_PATTERN = 6
"""Every so manieth layer of Gemma 3 sees everything; files do not say it."""
GEMMA_27B_LAYERS = 62
"""The one size that scales queries by hidden / heads; files do not say that either."""
ARCHITECTURE_NAMES = {"gemma3": "gemma3_text", "qwen3moe": "qwen3_moe"}
"""Where a file's name for an architecture is another than Hugging Face's."""

# Control tokens that end a turn or a document in the common chat formats: a file names one or two of them.
END_TOKENS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|end_of_text|>"})
CONTROL_TOKEN = 3


class GgufCheckpoint:
    """One `.gguf` file of a supported architecture."""

    def __init__(self, path: Path) -> None:
        self._file = Gguf(path)
        self.name = path.stem
        self.folder: Path | None = None
        self.metadata: Mapping[str, Any] = self._file.metadata
        self.config = _Reader(self._file).config()

    norms_from_one = False

    def has(self, name: str) -> bool:
        return _locate(self._file, name) is not None

    def shape(self, name: str) -> tuple[int, ...]:
        return _find(self._file, name).shape

    def tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        values = _load(self._file, _find(self._file, name), dtype)
        heads = self._interleaved_heads(name)
        return _deinterleave(values, heads) if heads else values

    def blocks(self, name: str) -> Blocks | None:
        tensor = _find(self._file, name)
        raw = torch.from_numpy(self._file.raw(tensor))
        blocks, heads = read_blocks(raw, QuantType(tensor.kind), tensor.shape), self._interleaved_heads(name)
        if blocks is None or not heads:
            return blocks
        minimum = None if blocks.minimum is None else _deinterleave(blocks.minimum, heads)
        codes, scale = _deinterleave(blocks.codes, heads), _deinterleave(blocks.scale, heads)
        return Blocks(codes, scale, minimum, blocks.bits, blocks.zero)

    def _interleaved_heads(self, name: str) -> int:
        """How many heads' rows are stored interleaved; 0 for a tensor that is stored as it is used."""
        if self.config.architecture != "llama":
            return 0
        if ".self_attn.q_proj." in name:
            return self.config.heads
        return self.config.kv_heads if ".self_attn.k_proj." in name else 0


class _Reader:
    """Reads a ModelConfig from key-values, with errors that name the file and the key."""

    def __init__(self, file: Gguf) -> None:
        self._file = file
        self._metadata = file.metadata
        self._architecture = self._string("general.architecture")
        """As the file's keys spell it."""
        self._family = ARCHITECTURE_NAMES.get(self._architecture, self._architecture)
        require_supported(self._family, file.path)

    def config(self) -> ModelConfig:
        heads = self._count("attention.head_count")
        hidden = self._count("embedding_length")
        head_dim = self._count("attention.key_length", hidden // heads)
        self._refuse_variants(head_dim)
        experts = self._experts()
        return ModelConfig(
            architecture=self._family,
            vocab_size=self._vocabulary(),
            hidden_size=hidden,
            intermediate_size=self._count("feed_forward_length", 1 if experts else None),
            layers=self._count("block_count"),
            heads=heads,
            kv_heads=self._count("attention.head_count_kv", heads),
            head_dim=head_dim,
            max_context=self._max_context(),
            **(self._gemma(head_dim, heads, hidden) if self._family == "gemma3_text" else {}),
            rms_eps=self._number("attention.layer_norm_rms_epsilon", 1e-5),
            rope_theta=self._number("rope.freq_base", 10000.0),
            rope_scaling=self._rope_scaling(),
            tied_head="output.weight" not in self._file.tensors,
            attention_bias="blk.0.attn_q.bias" in self._file.tensors,
            output_bias="blk.0.attn_output.bias" in self._file.tensors,
            mlp_bias="blk.0.ffn_up.bias" in self._file.tensors,
            head_norm="blk.0.attn_q_norm.weight" in self._file.tensors,
            experts=experts,
            dense_layers=self._dense_layers() if experts else frozenset(),
            eos_ids=self._eos_ids(),
            bos_id=self._metadata.get("tokenizer.ggml.bos_token_id"),
        )

    def _refuse_variants(self, head_dim: int) -> None:
        """Models under a known architecture's name that would compute something else."""
        if self._count("rope.dimension_count", head_dim) != head_dim:
            raise self._error("rotates only a part of each head, which is not supported")
        if self._count("attention.value_length", head_dim) != head_dim:
            raise self._error("has values of another width than keys, which is not supported")
        if self._metadata.get(f"{self._architecture}.expert_count") and self._family != "qwen3_moe":
            raise self._error("is a mixture of experts, which is supported for qwen3moe only")

    def _gemma(self, head_dim: int, heads: int, hidden: int) -> dict[str, Any]:
        layers = self._count("block_count")
        return {
            "sandwich_norm": True,
            "activation": "gelu_tanh",
            "embedding_scale": hidden**0.5,
            "query_scale": (hidden / heads if layers == GEMMA_27B_LAYERS else head_dim) ** -0.5,
            "window": self._count("attention.sliding_window"),
            "whole_layers": frozenset(range(GEMMA_PATTERN - 1, layers, GEMMA_PATTERN)),
            "window_rope_theta": self._number("rope.freq_base_swa", 10000.0),
        }

    def _experts(self) -> Experts | None:
        if self._family != "qwen3_moe":
            return None
        return Experts(
            count=self._count("expert_count"),
            chosen=self._count("expert_used_count"),
            inner=self._count("expert_feed_forward_length"),
            normalised=True,
        )

    def _dense_layers(self) -> frozenset[int]:
        layers = range(self._count("block_count"))
        return frozenset(layer for layer in layers if f"blk.{layer}.ffn_gate_inp.weight" not in self._file.tensors)

    def _max_context(self) -> int:
        """Inside a sliding window full attention is exact, so the window bounds the context."""
        length = self._count("context_length")
        if self._family == "gemma3_text":
            return length
        window = self._metadata.get(f"{self._architecture}.attention.sliding_window")
        return min(length, window) if isinstance(window, int) and window else length

    def _rope_scaling(self) -> Mapping[str, Any] | None:
        if "rope_freqs.weight" in self._file.tensors:
            factors = _load(self._file, self._file.tensors["rope_freqs.weight"], torch.float32)
            return {"rope_type": "factors", "factors": tuple(factors.tolist())}
        kind = self._metadata.get(f"{self._architecture}.rope.scaling.type", "none")
        if kind == "none":
            return None
        scaling = {"rope_type": kind, "factor": self._number("rope.scaling.factor", 1.0)}
        original = self._metadata.get(f"{self._architecture}.rope.scaling.original_context_length")
        return {**scaling, "original_max_position_embeddings": original} if original else scaling

    def _eos_ids(self) -> frozenset[int]:
        named = (self._metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom"))
        tokens, kinds = self._list("tokenizer.ggml.tokens"), self._list("tokenizer.ggml.token_type")
        control = (i for i, kind in enumerate(kinds[: len(tokens)]) if kind == CONTROL_TOKEN)
        ends = (i for i in control if tokens[i] in END_TOKENS)
        return frozenset([*(id_ for id_ in named if id_ is not None), *ends])

    def _count(self, key: str, default: int | None = None) -> int:
        value = self._metadata.get(f"{self._architecture}.{key}", default)
        if not isinstance(value, int) or value < 1:
            raise self._error(f"has {value!r} where {self._architecture}.{key} should be one count")
        return value

    def _number(self, key: str, default: float) -> float:
        value = self._metadata.get(f"{self._architecture}.{key}", default)
        if not isinstance(value, int | float):
            raise self._error(f"has {value!r} where {self._architecture}.{key} should be a number")
        return float(value)

    def _list(self, key: str) -> list[Any]:
        value = self._metadata.get(key)
        return value if isinstance(value, list) else []

    def _string(self, key: str) -> str:
        value = self._metadata.get(key)
        if not isinstance(value, str):
            raise self._error(f"does not say {key}")
        return value

    def _vocabulary(self) -> int:
        """Rows of the embedding, which may be more than the tokenizer has tokens."""
        shape = _find(self._file, "model.embed_tokens.weight").shape
        return shape[0] if shape else 0

    def _error(self, what: str) -> StartError:
        return StartError(f"{self._file.path}: the model {what}")


def _stored_as(file: Gguf, name: str) -> tuple[str, int | None]:
    """`model.layers.3.mlp.up_proj.weight` is `blk.3.ffn_up.weight`; an expert's matrix is one part of a tensor."""
    stem, _, kind = name.rpartition(".")
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}", None
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    if part.startswith("mlp.experts."):
        expert, _, matrix = part.removeprefix("mlp.experts.").partition(".")
        return f"blk.{layer}.{EXPERT_NAMES.get(matrix)}.{kind}", int(expert)
    if part in SANDWICH and f"blk.{layer}.{SANDWICH[part]}.{kind}" in file.tensors:
        return f"blk.{layer}.{SANDWICH[part]}.{kind}", None
    if part == GATE_UP and f"blk.{layer}.ffn_gate.{kind}" not in file.tensors:
        return f"blk.{layer}.ffn_up.{kind}", None
    return (f"blk.{layer}.{LAYER_NAMES[part]}.{kind}" if part in LAYER_NAMES else name), None


def _locate(file: Gguf, name: str) -> GgufTensor | None:
    stored, part = _stored_as(file, name)
    tensor = file.tensors.get(stored)
    return tensor if tensor is None or part is None else _slice(tensor, part)


def _slice(tensor: GgufTensor, index: int) -> GgufTensor | None:
    count, *shape = tensor.shape
    if index >= count:
        return None
    size = tensor.size // count
    return GgufTensor(f"{tensor.name}[{index}]", tensor.kind, tuple(shape), tensor.offset + index * size, size)


def _find(file: Gguf, name: str) -> GgufTensor:
    """A tensor that is there and can be read."""
    tensor = _locate(file, name)
    if tensor is None:
        raise StartError(f"{file.path}: tensor {_stored_as(file, name)[0]} is missing")
    if not isinstance(tensor.kind, QuantType):
        known = ", ".join(kind.name for kind in QuantType)
        raise StartError(f"{file.path}: tensor {tensor.name} is stored as type {tensor.kind}; supported are {known}")
    return tensor


def _load(file: Gguf, tensor: GgufTensor, dtype: torch.dtype) -> Tensor:
    values = torch.empty(tensor.shape, dtype=dtype)
    dequantise(torch.from_numpy(file.raw(tensor)), QuantType(tensor.kind), values)
    return values


def _deinterleave(values: Tensor, heads: int) -> Tensor:
    """Undoes llama.cpp's row order: pairs (0, 1), (2, 3), … of a head become its first and second half."""
    paired = values.view(heads, -1, 2, *values.shape[1:])
    return paired.transpose(1, 2).reshape(values.shape)
