"""Each family's GGUF layout, written from a tiny random model of transformers: logits must agree."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.model import load_decoder
from engine.weights.checkpoint import open_checkpoint

SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}  # fmt: skip
EXPERTS = {
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
    "head_dim": 16,
}
FAMILIES = {
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "qwen3moe": ("Qwen3Moe", EXPERTS),
    "phi3": ("Phi3", {"pad_token_id": 0}),
    "gemma3": ("Gemma3Text", {"head_dim": 16, "query_pre_attn_scalar": 16, "pad_token_id": 0, "sliding_window": 64,
                              "num_hidden_layers": 6, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                             "original_max_position_embeddings": 32}}),
}  # fmt: skip
EXPERT = re.compile(r"(model\.layers\.\d+\.mlp\.experts)\.\d+\.(\w+)\.weight")


@pytest.fixture(params=FAMILIES, scope="module")
def model(request, tmp_path_factory):
    """(architecture, transformers' model, its tensors as files name them)."""
    transformers = pytest.importorskip("transformers")
    name, settings = FAMILIES[request.param]
    torch.manual_seed(5)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **settings})
    made = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config).eval()
    for title, parameter in made.named_parameters():
        ones = "norm" in title and "Gemma" not in name  # Gemma stores what differs from 1
        torch.nn.init.normal_(parameter.data, mean=float(ones), std=0.15)
    folder = tmp_path_factory.mktemp(request.param)
    made.save_pretrained(folder)
    return request.param, made, load_file(folder / "model.safetensors")


def write(path, architecture, config, tensors):
    import gguf

    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(1e6 if architecture == "gemma3" else 1e4)
    if head_dim := getattr(config, "head_dim", None):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if architecture == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    if architecture == "qwen2":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(32)
    for name, values in stacked(tensors).items():
        stem = names.get_name(name.removesuffix(".weight").removesuffix(".bias"))
        assert stem, name
        if architecture == "gemma3" and "norm" in name:
            values = values + 1
        writer.add_tensor(f"{stem}.{name.rpartition('.')[2]}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stacked(tensors):
    """The experts of a layer one after another, as such files hold them."""
    plain, groups = {}, {}
    for name, values in tensors.items():
        if found := EXPERT.fullmatch(name):
            number = int(name.split(".experts.")[1].split(".")[0])
            groups.setdefault(f"{found[1]}.{found[2]}.weight", {})[number] = values.float().numpy()
        else:
            plain[name] = values.float().numpy()
    return plain | {name: np.stack([parts[i] for i in sorted(parts)]) for name, parts in groups.items()}


def test_logits_agree_with_transformers(model, causal, tmp_path):
    architecture, theirs, tensors = model
    write(tmp_path / "tiny.gguf", architecture, theirs.config, tensors)
    checkpoint = open_checkpoint(tmp_path / "tiny.gguf")
    ids = torch.arange(30) * 7 % 96
    with torch.no_grad():
        expected = theirs(ids[None]).logits[0]
    logits = load_decoder(checkpoint, torch.float32).forward(ids, torch.arange(30), torch.arange(30), causal)
    assert (logits - expected).norm() / expected.norm() < 1e-4
    assert checkpoint.config.parameters == sum(v.numel() for v in tensors.values() if v.ndim > 1) - routers(tensors)


def routers(tensors):
    return sum(values.numel() for name, values in tensors.items() if name.endswith("mlp.gate.weight"))
