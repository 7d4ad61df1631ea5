"""Tiny random models, saved by transformers and read by us: logits must agree."""

from __future__ import annotations

import pytest
import torch

from engine.errors import StartError
from engine.model import load_decoder
from engine.weights.checkpoint import open_checkpoint

TOKENS = 40
SIZES = {"vocab_size": 131, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
         "num_attention_heads": 6, "max_position_embeddings": 256}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}  # fmt: skip

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
MOE = {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
LONGROPE = {"original_max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.3, 1.7],
                                "long_factor": [1.0, 2.0, 4.0, 9.0]}}  # fmt: skip

GEMMA = {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 16, "pad_token_id": 0,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}  # fmt: skip

CASES = {
    "untied": ("Llama", {"num_key_value_heads": 6}),
    "tied-grouped": ("Llama", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "all-biases": ("Llama", {"num_key_value_heads": 3, "attention_bias": True, "mlp_bias": True}),
    "one-kv-head": ("Llama", {"num_key_value_heads": 1}),
    "wide-heads": ("Llama", {"num_key_value_heads": 2, "head_dim": 32}),
    "llama3-rope": ("Llama", {"num_key_value_heads": 2, "rope_parameters": LLAMA3}),
    "linear-rope": (
        "Llama",
        {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}},
    ),
    "mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": None}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "qwen2-tied": ("Qwen2", {"num_key_value_heads": 3, "tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    "qwen2-yarn": ("Qwen2", {"num_key_value_heads": 2, "rope_parameters": YARN}),
    "yarn-scaled": (
        "Llama",
        {"num_key_value_heads": 2, "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.2}},
    ),
    "dynamic-rope": (
        "Llama",
        {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
    ),
    "qwen3": ("Qwen3", {"num_key_value_heads": 2, "head_dim": 32}),
    "qwen3-native": (
        "Qwen3",
        {"num_key_value_heads": 2, "head_dim": 64, "hidden_size": 64, "tie_word_embeddings": True},
    ),
    "qwen3-one-kv-head": ("Qwen3", {"num_key_value_heads": 1, "head_dim": 64, "hidden_size": 64}),
    "qwen3-moe": ("Qwen3Moe", {**MOE, "norm_topk_prob": True}),
    "qwen3-moe-mixed": ("Qwen3Moe", {**MOE, "mlp_only_layers": [1], "norm_topk_prob": False}),
    "gemma3": ("Gemma3Text", GEMMA),
    "gemma3-scaled": (
        "Gemma3Text",
        {
            **GEMMA,
            "query_pre_attn_scalar": 24,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            },
        },
    ),
    "phi3": ("Phi3", {"num_key_value_heads": 2, "pad_token_id": 0}),
    "phi3-longrope": ("Phi3", {"num_key_value_heads": 2, "pad_token_id": 0, **LONGROPE}),
}


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def random_model(transformers, family, settings):
    torch.manual_seed(7)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **settings})
    model = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config).eval()
    for name, parameter in model.named_parameters():  # biases start as zeros and norms as ones
        spread = 0.3 if "bias" in name or "norm" in name else 0.15
        torch.nn.init.normal_(parameter.data, mean=float("norm" in name), std=spread)
    return model


def reference(model, ids):
    with torch.no_grad():
        return model(ids[None]).logits[0]


@pytest.fixture(params=CASES, scope="module")
def pair(request, transformers, tmp_path_factory):
    """(our decoder, transformers' model) over the same files."""
    model = random_model(transformers, *CASES[request.param])
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return load_decoder(open_checkpoint(folder), torch.float32), model


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, SIZES["vocab_size"], (TOKENS,), generator=torch.Generator().manual_seed(3))


def test_logits_agree_with_transformers(pair, ids, run_decoder, relative_error):
    decoder, model = pair
    logits = run_decoder(decoder, ids)
    assert logits.dtype == torch.float32
    assert relative_error(logits, reference(model, ids)) < 1e-4


def test_chunks_change_nothing(pair, ids, run_decoder, relative_error):
    decoder, model = pair
    logits = run_decoder(decoder, ids, cuts=(1, 2, 17, 30))
    assert relative_error(logits, reference(model, ids)) < 1e-4


def test_hidden_states_agree_with_transformers(pair, ids, plain_attention, relative_error):
    decoder, model = pair
    with torch.no_grad():
        theirs = model.model(ids[None]).last_hidden_state[0]
    ours = decoder.hidden(ids, torch.arange(TOKENS), plain_attention(decoder.config))
    assert ours.dtype == torch.float32
    assert relative_error(ours, theirs) < 1e-4


def test_only_the_wanted_rows_are_returned(pair, ids, plain_attention):
    decoder, model = pair
    rows = torch.tensor([TOKENS - 1, 4])
    logits = decoder.forward(ids, torch.arange(TOKENS), rows, plain_attention(decoder.config))
    torch.testing.assert_close(logits, reference(model, ids)[rows], rtol=1e-3, atol=1e-3)
    none = decoder.forward(ids, torch.arange(TOKENS), rows[:0], plain_attention(decoder.config))
    assert none.shape == (0, SIZES["vocab_size"])


def test_bfloat16_stays_near_float32(transformers, ids, tmp_path, run_decoder, relative_error):
    model = random_model(transformers, *CASES["all-biases"])
    model.save_pretrained(tmp_path)
    logits = run_decoder(load_decoder(open_checkpoint(tmp_path), torch.bfloat16), ids)
    assert relative_error(logits, reference(model, ids)) < 0.05


def test_shards_read_like_one_file(transformers, ids, tmp_path, run_decoder, relative_error):
    model = random_model(transformers, *CASES["untied"])
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    logits = run_decoder(load_decoder(open_checkpoint(tmp_path), torch.float32), ids)
    assert relative_error(logits, reference(model, ids)) < 1e-4


def test_a_missing_tensor_is_named(transformers, tmp_path):
    from safetensors.torch import load_file, save_file

    random_model(transformers, *CASES["untied"]).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(StartError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        load_decoder(open_checkpoint(tmp_path), torch.float32)


def test_a_wrong_shape_is_named(transformers, tmp_path):
    from safetensors.torch import load_file, save_file

    random_model(transformers, *CASES["untied"]).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(47)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(StartError, match=r"model\.norm\.weight has shape \(47,\).*\(48,\)"):
        load_decoder(open_checkpoint(tmp_path), torch.float32)
