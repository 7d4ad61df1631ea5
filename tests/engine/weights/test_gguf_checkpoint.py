"""GGUF models as checkpoints: names, the order of q and k rows, configuration, and a decoder on top."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StartError
from engine.model import load_decoder
from engine.weights.checkpoint import open_checkpoint

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"]


@pytest.mark.parametrize("type_name", TYPES)
def test_tensors_come_back_under_hugging_face_names(write_tiny_gguf, tmp_path, type_name):
    tiny = write_tiny_gguf(tmp_path / "tiny.gguf", type_name)
    checkpoint = open_checkpoint(tiny.path)
    for name, values in tiny.tensors.items():
        assert checkpoint.has(name)
        np.testing.assert_array_equal(checkpoint.tensor(name, torch.float32).numpy(), values, err_msg=name)


def test_the_configuration_is_read(write_tiny_gguf, tmp_path):
    checkpoint = open_checkpoint(write_tiny_gguf(tmp_path / "tiny.gguf").path)
    config = checkpoint.config
    assert (config.architecture, config.layers, config.heads, config.kv_heads) == ("llama", 2, 4, 2)
    assert (config.vocab_size, config.hidden_size, config.intermediate_size, config.head_dim) == (50, 64, 96, 16)
    assert (config.max_context, config.rope_theta, config.tied_head) == (128, 10000.0, False)
    assert (checkpoint.name, checkpoint.folder) == ("tiny", None)


def test_without_an_output_tensor_the_head_is_tied(write_tiny_gguf, tmp_path):
    checkpoint = open_checkpoint(write_tiny_gguf(tmp_path / "t.gguf", leave_out=["lm_head.weight"]).path)
    assert checkpoint.config.tied_head
    assert not checkpoint.has("lm_head.weight")


def test_qwen2_rows_are_not_reordered(write_tiny_gguf, tmp_path):
    tiny = write_tiny_gguf(tmp_path / "q.gguf", architecture="qwen2")
    name = "model.layers.0.self_attn.q_proj.weight"
    values = open_checkpoint(tiny.path).tensor(name, torch.float32)
    np.testing.assert_array_equal(values.numpy(), tiny.tensors[name])


@pytest.mark.parametrize("type_name", TYPES)
def test_logits_agree_with_transformers(write_tiny_gguf, causal, tmp_path, type_name):
    transformers = pytest.importorskip("transformers")
    tiny = write_tiny_gguf(tmp_path / "tiny.gguf", type_name)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=50, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5,
        )
    ).eval()  # fmt: skip
    model.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in tiny.tensors.items()})
    ids = torch.arange(20) * 7 % 50
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
    decoder = load_decoder(open_checkpoint(tiny.path), torch.float32)
    logits = decoder.forward(ids, torch.arange(20), torch.arange(20), causal)
    assert (logits - expected).norm() / expected.norm() < 1e-4


def test_ends_are_a_union(write_tiny_gguf, tmp_path):
    def vocabulary(writer):
        writer.add_token_list(["a", "<|endoftext|>", "<|im_end|>", "<|tool|>", "<|eot_id|>"])
        writer.add_token_types([1, 3, 3, 3, 1])
        writer.add_eos_token_id(2)
        writer.add_eot_token_id(3)

    config = open_checkpoint(write_tiny_gguf(tmp_path / "t.gguf", change=vocabulary).path).config
    assert config.eos_ids == {1, 2, 3}  # token 4 is ordinary text that looks like a control token


def test_rope_factors_are_taken_from_their_tensor(write_tiny_gguf, tmp_path):
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    tiny = write_tiny_gguf(tmp_path / "t.gguf", change=lambda w: w.add_tensor("rope_freqs.weight", factors))
    scaling = open_checkpoint(tiny.path).config.rope_scaling
    assert scaling["rope_type"] == "factors"
    np.testing.assert_allclose(scaling["factors"], factors)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"architecture": "gpt2"}, "'gpt2' is not supported; supported are gemma3_text, llama"),
        ({"extra": [("llama.expert_count", 8)]}, "mixture of experts"),
        ({"extra": [("llama.rope.dimension_count", 8)]}, "a part of each head"),
        ({"extra": [("llama.attention.value_length", 8)]}, "another width"),
        ({"leave_out": ["model.embed_tokens.weight"]}, "tensor token_embd.weight is missing"),
    ],
)
def test_what_would_compute_something_else_is_refused(write_tiny_gguf, tmp_path, arguments, words):
    with pytest.raises(StartError, match=words):
        open_checkpoint(write_tiny_gguf(tmp_path / "t.gguf", **arguments).path)


def test_an_unknown_rope_scaling_is_refused(write_tiny_gguf, tmp_path):
    def odd(writer):
        writer.add_string("llama.rope.scaling.type", "ntk")

    checkpoint = open_checkpoint(write_tiny_gguf(tmp_path / "t.gguf", change=odd).path)
    with pytest.raises(StartError, match="'ntk' is not supported"):
        load_decoder(checkpoint, torch.float32)


def test_a_sliding_window_bounds_the_context(write_tiny_gguf, tmp_path):
    tiny = write_tiny_gguf(tmp_path / "t.gguf", extra=[("llama.attention.sliding_window", 32)])
    assert open_checkpoint(tiny.path).config.max_context == 32


def test_a_missing_tensor_is_named_when_it_is_loaded(write_tiny_gguf, tmp_path):
    tiny = write_tiny_gguf(tmp_path / "t.gguf", leave_out=["model.layers.1.mlp.down_proj.weight"])
    with pytest.raises(StartError, match=r"t\.gguf: tensor blk\.1\.ffn_down\.weight is missing"):
        load_decoder(open_checkpoint(tiny.path), torch.float32)


def test_an_unreadable_type_is_named_when_it_is_loaded(write_tiny_gguf, tmp_path):
    import gguf

    def odd(writer):
        blocks = np.zeros((64, 96 // 32 * 18), dtype=np.uint8)
        writer.add_tensor("blk.1.ffn_down.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.IQ4_NL)

    name = "model.layers.1.mlp.down_proj.weight"
    tiny = write_tiny_gguf(tmp_path / "t.gguf", leave_out=[name], change=odd)
    with pytest.raises(StartError, match=r"ffn_down\.weight is stored as type 20; supported are F32.*Q4_0"):
        open_checkpoint(tiny.path).tensor(name, torch.float32)


def test_a_folder_with_one_gguf_is_that_model(write_tiny_gguf, tmp_path):
    write_tiny_gguf(tmp_path / "one.gguf")
    assert open_checkpoint(tmp_path).name == "one"
    (tmp_path / "two.gguf").write_bytes(b"")
    with pytest.raises(StartError, match=r"several \.gguf files.*one\.gguf, two\.gguf"):
        open_checkpoint(tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_models_load_or_say_why(tiny_bytes, tmp_path, data):
    """Bytes of the description, not of the weights, where any value is a number."""
    damaged = bytearray(tiny_bytes)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, tiny_bytes.rindex(b"blk.")))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged)
    try:
        decoder = load_decoder(open_checkpoint(path), torch.float32)
    except StartError:
        return
    assert decoder.config.layers in (1, 2)


@pytest.fixture(scope="module")
def tiny_bytes(write_tiny_gguf, tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf").path.read_bytes()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_loading_the_real_model_keeps_no_second_copy(smollm2_path):
    """Peak memory of a fresh process: the interpreter, torch, the weights in float32 (538 MB) and little more."""
    import subprocess
    import sys

    script = (
        "import sys, torch; from pathlib import Path\n"
        "from engine.model import load_decoder; from engine.weights.checkpoint import open_checkpoint\n"
        "d = load_decoder(open_checkpoint(Path(sys.argv[1])), torch.float32)\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"  # KiB, since exec
    )
    result = subprocess.run([sys.executable, "-c", script, str(smollm2_path)], capture_output=True, check=True)
    assert int(result.stdout) < 1200 * 1024
