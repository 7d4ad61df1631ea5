"""Reads a ModelConfig from the JSON files of a Hugging Face model folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.errors import StartError
from engine.model.config import Experts, ModelConfig, require_supported

# Models under a known type's name that would compute something else, by the key that gives them away.
HEAD_NORMED = ("gemma3_text", "qwen3", "qwen3_moe")
REFUSED_KEYS = ("quantization_config",)


def read_config(folder: Path) -> ModelConfig:
    """The configuration in `config.json`, in the spelling of transformers 4 or 5."""
    return _Reader(folder).config()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or {} when there is no such file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StartError(f"{path}: can't be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise StartError(f"{path}: should be a JSON object")
    return value


class _Reader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "config.json"
        self._json = read_json(self._path)

    def config(self) -> ModelConfig:
        architecture = self._text("model_type")
        require_supported(architecture, self._path)
        self._refuse_variants()
        heads, hidden = self._count("num_attention_heads"), self._count("hidden_size")
        bias = architecture == "qwen2" or bool(self._json.get("attention_bias"))
        return ModelConfig(
            architecture=architecture,
            vocab_size=self._count("vocab_size"),
            hidden_size=hidden,
            intermediate_size=self._count("intermediate_size"),
            layers=self._count("num_hidden_layers"),
            heads=heads,
            kv_heads=self._count("num_key_value_heads", heads),
            head_dim=self._count("head_dim", hidden // heads),
            max_context=self._max_context(),
            rms_eps=self._number(self._json, "rms_norm_eps", 1e-6),
            rope_theta=self._number({**self._json, **self._rope()}, "rope_theta", 10000.0),
            rope_scaling=self._rope_scaling(),
            tied_head=bool(self._json.get("tie_word_embeddings", False)),
            attention_bias=bias,
            output_bias=bias and architecture != "qwen2",
            mlp_bias=bool(self._json.get("mlp_bias")),
            head_norm=architecture in HEAD_NORMED,
            **(self._gemma(hidden) if architecture == "gemma3_text" else {}),
            experts=self._experts() if architecture == "qwen3_moe" else None,
            dense_layers=self._dense_layers() if architecture == "qwen3_moe" else frozenset(),
            eos_ids=self._eos_ids(),
            bos_id=self._json.get("bos_token_id"),
        )

    def _refuse_variants(self) -> None:
        known = "gelu_pytorch_tanh" if self._json["model_type"] == "gemma3_text" else "silu"
        activation = self._json.get("hidden_activation") or self._json.get("hidden_act", known)
        if activation != known:
            raise StartError(f"{self._path}: hidden_act {activation!r} is not supported; {known} is")
        for key in ("final_logit_softcapping", "attn_logit_softcapping", "use_bidirectional_attention"):
            if self._json.get(key):
                raise StartError(f"{self._path}: models with {key} are not supported")
        for key in REFUSED_KEYS:
            if self._json.get(key):
                raise StartError(f"{self._path}: models with {key} are not supported")

    def _gemma(self, hidden: int) -> dict[str, Any]:
        layers = range(self._count("num_hidden_layers"))
        step = self._count("sliding_window_pattern", self._count("_sliding_window_pattern", 6))
        kinds = self._json.get("layer_types") or ["full_attention" if (i + 1) % step == 0 else "" for i in layers]
        local = self._rope_parameters("sliding_attention")
        return {
            "sandwich_norm": True,
            "activation": "gelu_tanh",
            "embedding_scale": hidden**0.5,
            "query_scale": self._number(self._json, "query_pre_attn_scalar", 256) ** -0.5,
            "window": self._count("sliding_window"),
            "whole_layers": frozenset(layer for layer in layers if kinds[layer] == "full_attention"),
            "window_rope_theta": self._number(
                {**self._json, **local}, "rope_theta" if local else "rope_local_base_freq", 1e4
            ),
        }

    def _experts(self) -> Experts:
        return Experts(
            count=self._count("num_local_experts" if "num_local_experts" in self._json else "num_experts"),
            chosen=self._count("num_experts_per_tok"),
            inner=self._count("moe_intermediate_size"),
            normalised=bool(self._json.get("norm_topk_prob")),
        )

    def _dense_layers(self) -> frozenset[int]:
        step, named = self._count("decoder_sparse_step", 1), self._json.get("mlp_only_layers") or ()
        layers = range(self._count("num_hidden_layers"))
        return frozenset(layer for layer in layers if layer in named or (layer + 1) % step)

    def _max_context(self) -> int:
        """Inside a sliding window full attention is exact, so the window bounds the context."""
        length = self._count("max_position_embeddings")
        if self._json["model_type"] == "gemma3_text":
            return length
        rope = self._rope()
        if rope["rope_type"] in ("longrope", "dynamic"):  # what the model was trained for; beyond it they vary in time
            length = min(length, self._count("original_max_position_embeddings", length))
        windowed = self._json.get("use_sliding_window", not self._json["model_type"].startswith("qwen"))
        return min(length, self._count("sliding_window", length)) if windowed else length

    def _rope(self) -> Mapping[str, Any]:
        """`rope_parameters` (transformers 5) or `rope_scaling` (before), with one spelling of the type."""
        found = self._rope_parameters("full_attention") or self._json.get("rope_parameters")
        found = found or self._json.get("rope_scaling") or {}
        if not isinstance(found, dict):
            raise StartError(f"{self._path}: the rope parameters should be a JSON object")
        return {**found, "rope_type": found.get("rope_type", found.get("type", "default"))}

    def _rope_parameters(self, kind: str) -> Mapping[str, Any]:
        """Those of one kind of layers, where kinds differ."""
        found = (self._json.get("rope_parameters") or {}).get(kind)
        return found if isinstance(found, dict) else {}

    def _rope_scaling(self) -> Mapping[str, Any] | None:
        rope = self._rope()
        if rope.get("partial_rotary_factor", 1.0) != 1.0:
            raise StartError(f"{self._path}: rotating only a part of each head is not supported")
        match rope["rope_type"]:
            case "default" | "dynamic":  # within the original context, which bounds ours, nothing is scaled
                return None
            case "longrope":
                return self._longrope(rope)
            case _:
                return rope

    def _longrope(self, rope: Mapping[str, Any]) -> Mapping[str, Any]:
        """The divisors for the original context, which bounds ours; the attention factor is the long one's, always."""
        original, longest = self._max_context(), self._count("max_position_embeddings")
        stretched = rope.get("factor") or longest / self._count("original_max_position_embeddings", longest)
        length = rope.get("attention_factor")
        if length is None:
            length = math.sqrt(1 + math.log(stretched) / math.log(original)) if stretched > 1 else 1.0
        return {"rope_type": "factors", "factors": tuple(rope.get("short_factor", ())), "attention_factor": length}

    def _eos_ids(self) -> frozenset[int]:
        """The union of all that name an end: a generation configuration adds to the others, replaces none."""
        generation = read_json(self._folder / "generation_config.json")
        ids = {*_ids(self._json.get("eos_token_id")), *_ids(generation.get("eos_token_id"))}
        return frozenset(ids | set(_tokenizer_eos(self._folder)))

    def _count(self, key: str, default: int | None = None) -> int:
        value = self._json.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise StartError(f"{self._path}: {key} is {value!r} and should be a positive count")
        return value

    def _number(self, source: Mapping[str, Any], key: str, default: float) -> float:
        value = source.get(key, default)
        if not isinstance(value, int | float):
            raise StartError(f"{self._path}: {key} is {value!r} and should be a number")
        return float(value)

    def _text(self, key: str) -> str:
        value = self._json.get(key)
        if not isinstance(value, str):
            raise StartError(f"{self._path}: {key} is {value!r} and should be a name")
        return value


def _ids(value: Any) -> Iterator[int]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int):
            yield item


def _tokenizer_eos(folder: Path) -> Iterator[int]:
    """The id of the tokenizer's `eos_token`, which chat models often set apart from the configuration's."""
    settings = read_json(folder / "tokenizer_config.json")
    token = settings.get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    if text is None:
        return
    added = read_json(folder / "tokenizer.json").get("added_tokens", [])
    decoder = settings.get("added_tokens_decoder", {})
    yield from (entry["id"] for entry in added if entry.get("content") == text)
    yield from (int(key) for key, entry in decoder.items() if entry.get("content") == text)
