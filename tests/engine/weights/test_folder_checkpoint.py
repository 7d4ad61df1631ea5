"""Model folders: configuration in old and new spelling, ends of turns, damaged files."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import StartError
from engine.weights.checkpoint import open_checkpoint

CONFIG = {
    "model_type": "llama", "vocab_size": 20, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": 2,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    save_file({"model.norm.weight": torch.ones(32)}, tmp_path / "model.safetensors")
    return tmp_path


def put(folder, name="config.json", **values):
    (folder / name).write_text(json.dumps(values))


def config(folder, **changes):
    put(folder, **{**CONFIG, **changes})
    return open_checkpoint(folder).config


def test_sizes_and_defaults(folder):
    read = config(folder)
    assert (read.head_dim, read.kv_heads, read.rope_theta, read.rms_eps) == (8, 2, 10000.0, 1e-6)
    assert [read.tied_head, read.attention_bias, read.output_bias, read.mlp_bias] == [False] * 4
    assert config(folder, num_key_value_heads=None).kv_heads == 4
    assert config(folder, head_dim=16).head_dim == 16


def test_qwen2_has_biases_on_q_k_v_only(folder):
    read = config(folder, model_type="qwen2")
    assert (read.attention_bias, read.output_bias) == (True, False)
    assert config(folder, attention_bias=True).output_bias


def test_rope_in_both_spellings(folder):
    old = config(folder, rope_theta=5e5, rope_scaling={"type": "linear", "factor": 2.0})
    new = config(folder, rope_parameters={"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0})
    assert old.rope_theta == new.rope_theta == 5e5
    assert old.rope_scaling["rope_type"] == new.rope_scaling["rope_type"] == "linear"
    assert config(folder, rope_parameters={"rope_type": "default", "rope_theta": 7.0}).rope_scaling is None


def test_ends_are_a_union_of_all_that_name_one(folder):
    put(folder, "generation_config.json", eos_token_id=[7, 9])
    put(folder, "tokenizer_config.json", eos_token={"content": "<|im_end|>"})
    put(folder, "tokenizer.json", added_tokens=[{"id": 11, "content": "<|im_end|>"}, {"id": 12, "content": "x"}])
    assert config(folder).eos_ids == {2, 7, 9, 11}


def test_ends_from_the_tokenizer_settings_alone(folder):
    put(folder, "tokenizer_config.json", eos_token="</s>", added_tokens_decoder={"15": {"content": "</s>"}})
    assert config(folder, eos_token_id=None).eos_ids == {15}


def test_a_sliding_window_bounds_the_context(folder):
    assert config(folder, model_type="mistral", sliding_window=16).max_context == 16
    assert config(folder, model_type="qwen2", sliding_window=16).max_context == 64
    assert config(folder, model_type="qwen2", sliding_window=16, use_sliding_window=True).max_context == 16


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "'gpt2' is not supported; supported are gemma3_text, llama"),
        ({"model_type": None}, "model_type is None"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 3}, "4 heads can't share 3 key-value heads"),
        ({"head_dim": 7}, "head size 7 is odd"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_scaling": [1]}, "JSON object"),
        ({"rope_theta": "big"}, "rope_theta is 'big'"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "a part of each head"),
    ],
)
def test_configurations_that_are_refused(folder, changes, words):
    with pytest.raises(StartError, match=words):
        config(folder, **changes)


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_a_configuration_that_is_no_json_object(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StartError, match=r"config\.json"):
        open_checkpoint(folder)


def test_damaged_and_missing_weights(folder):
    put(folder, **CONFIG)
    (folder / "model.safetensors").write_bytes(b"\x10" + bytes(20))
    with pytest.raises(StartError, match=r"model\.safetensors: can't be read as safetensors"):
        open_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(StartError, match=r"no \*\.safetensors file"):
        open_checkpoint(folder)


def test_a_shard_that_the_index_names_but_is_not_there(folder):
    put(folder, **CONFIG)
    put(folder, "model.safetensors.index.json", weight_map={"model.norm.weight": "part-2.safetensors"})
    with pytest.raises(StartError, match=r"part-2\.safetensors"):
        open_checkpoint(folder).tensor("model.norm.weight", torch.float32)


def test_integer_tensors_are_refused(folder):
    put(folder, **CONFIG)
    save_file({"model.norm.weight": torch.ones(32, dtype=torch.int8)}, folder / "model.safetensors")
    with pytest.raises(StartError, match=r"model\.norm\.weight is stored as torch\.int8"):
        open_checkpoint(folder).tensor("model.norm.weight", torch.float32)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(StartError, match=r"neither config\.json nor a \.gguf"):
        open_checkpoint(tmp_path)
    with pytest.raises(StartError, match="no such file or folder"):
        open_checkpoint(tmp_path / "none")
