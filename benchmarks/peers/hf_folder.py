"""A model folder in Hugging Face's format from any checkpoint that the engine reads: dequantised to bfloat16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.model.config import ModelConfig
    from engine.weights.checkpoint import Checkpoint

LAYER_TENSORS = (
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}


def hf_folder(model: Path, folder: Path) -> Path:
    """`folder`, written unless a former call has: config.json comes last, so a folder that has it is whole."""
    if (folder / "config.json").is_file():
        return folder
    import torch
    from safetensors.torch import save_file

    from engine.weights.checkpoint import open_checkpoint

    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = open_checkpoint(model)
    tensors = {name: checkpoint.tensor(name, torch.bfloat16) for name in tensor_names(checkpoint)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(checkpoint, folder)
    (folder / "config.json").write_text(json.dumps(hf_config(checkpoint.config), indent=2))
    return folder


def tensor_names(checkpoint: Checkpoint) -> list[str]:
    """All that the model has, a head of its own and biases included."""
    layers = [f"model.layers.{i}.{part}" for i in range(checkpoint.config.layers) for part in LAYER_TENSORS]
    stems = ["model.embed_tokens", "model.norm", "lm_head", *layers]
    names = [f"{stem}.{kind}" for stem in stems for kind in ("weight", "bias")]
    return [name for name in names if checkpoint.has(name)]


def hf_config(config: ModelConfig) -> dict[str, Any]:
    """The keys that a Llama-family `config.json` needs."""
    if config.rope_scaling is not None:
        raise ValueError("rope scaling is not written: the benchmark's model has none")
    return {
        "architectures": [ARCHITECTURES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_context,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tied_head,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.mlp_bias,
        "hidden_act": "silu",
        "bos_token_id": config.bos_id,
        "eos_token_id": sorted(config.eos_ids),
        "torch_dtype": "bfloat16",
    }


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    from engine.prompt.template import load_chat_template
    from engine.prompt.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(checkpoint.metadata, checkpoint.folder)
    tokenizer.raw.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokenizer.bos or None,
        "eos_token": tokenizer.eos or None,
        "chat_template": load_chat_template(checkpoint.metadata, checkpoint.folder),
        "model_max_length": checkpoint.config.max_context,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
