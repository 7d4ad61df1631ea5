"""The real model: our decoder on our reader against transformers on the same dequantised tensors."""

from __future__ import annotations

import pytest
import torch

from engine.model import load_decoder

TOKENS = 96


@pytest.fixture(scope="module")
def ids(smollm2_checkpoint):
    draw = torch.Generator().manual_seed(11)
    return torch.randint(0, smollm2_checkpoint.config.vocab_size, (TOKENS,), generator=draw)


@pytest.fixture(scope="module")
def expected(smollm2_checkpoint, ids):
    """transformers' logits, float32."""
    transformers = pytest.importorskip("transformers")
    config = smollm2_checkpoint.config
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=config.vocab_size, hidden_size=config.hidden_size, num_hidden_layers=config.layers,
                intermediate_size=config.intermediate_size, num_attention_heads=config.heads,
                num_key_value_heads=config.kv_heads, rms_norm_eps=config.rms_eps, tie_word_embeddings=True,
                max_position_embeddings=config.max_context,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            )
        )  # fmt: skip
    names = {name for name, _ in model.named_parameters()}
    state = {name: smollm2_checkpoint.tensor(name, torch.float32) for name in names}
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)  # its buffers were made on "meta"
    with torch.no_grad():
        return model.eval()(ids[None]).logits[0]


def test_float32_logits_agree_with_transformers(smollm2_checkpoint, ids, expected, run_decoder, relative_error):
    logits = run_decoder(load_decoder(smollm2_checkpoint, torch.float32), ids, cuts=(40, 41))
    assert relative_error(logits, expected) < 1e-4
    assert torch.equal(logits.argmax(-1), expected.argmax(-1))


def test_bfloat16_logits_stay_near(smollm2_checkpoint, ids, expected, run_decoder, relative_error):
    logits = run_decoder(load_decoder(smollm2_checkpoint, torch.bfloat16), ids, cuts=(40, 41))
    assert relative_error(logits, expected) < 0.05
    assert (logits.argmax(-1) == expected.argmax(-1)).float().mean() > 0.8


def test_the_configuration_is_that_of_smollm2(smollm2_checkpoint):
    config = smollm2_checkpoint.config
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert (config.vocab_size, config.hidden_size, config.max_context) == (49152, 576, 8192)
    assert config.tied_head
    assert config.eos_ids == {0, 2}  # <|endoftext|> and <|im_end|>
    assert smollm2_checkpoint.folder is None
    assert smollm2_checkpoint.metadata["tokenizer.ggml.tokens"][2] == "<|im_end|>"
