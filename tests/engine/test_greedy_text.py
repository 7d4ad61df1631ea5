"""Greedy answers of the whole engine equal those of `transformers`, beyond near-ties."""

from __future__ import annotations

import pytest
import torch

from engine.core import Engine
from engine.model import load_decoder
from engine.output.tools import format_for
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate, load_chat_template
from engine.prompt.tokenizer import load_tokenizer
from engine.sample.params import SamplingParams
from engine.schedule.request import Request

CHATS = [
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Name three colours.",
    "What is 2 + 2?",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "List the days of the week.",
    "What does `len([1, 2, 3])` return?",
    "Write a haiku about trees.",
    "Explain recursion in one sentence.",
]
TOKENS = 24
NEAR_TIE = 1e-3


@pytest.fixture(scope="module")
def reference(smollm2_checkpoint):
    """`transformers` with our dequantised weights: only the computation is compared."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = smollm2_checkpoint.config
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.max_context,
            rms_norm_eps=config.rms_eps,
            rope_theta=config.rope_theta,
            tie_word_embeddings=True,
        )
    ).eval()
    names = [name for name in model.state_dict() if smollm2_checkpoint.has(name)]
    weights = {name: smollm2_checkpoint.tensor(name, torch.float32) for name in names}
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert missing in ([], ["lm_head.weight"])
    return model


@pytest.fixture(scope="module")
def prompts(smollm2_checkpoint):
    metadata, folder = smollm2_checkpoint.metadata, smollm2_checkpoint.folder
    tokenizer = load_tokenizer(metadata, folder)
    source = load_chat_template(metadata, folder)
    template = ChatTemplate(source, tokenizer.bos, tokenizer.eos, format_for(source))
    return [tokenizer.encode(template.render(read_messages([{"role": "user", "content": chat}]))) for chat in CHATS]


@pytest.mark.usefixtures("two_threads")
def test_ten_chats(smollm2_checkpoint, reference, prompts):
    engine = Engine(
        load_decoder(smollm2_checkpoint, torch.float32), kv_tokens=2048, dtype=torch.float32, step_tokens=64
    )
    requests = [
        Request(namespace="", prompt=prompt, max_tokens=TOKENS, sampling=SamplingParams(temperature=0.0))
        for prompt in prompts
    ]
    with torch.inference_mode():
        for request in requests:
            engine.scheduler.submit(request)
        while not engine.scheduler.idle:
            engine.step()
        compared = [_agreed(reference, request) for request in requests]
    assert sum(compared) > 0.9 * TOKENS * len(CHATS), "near-ties should be rare"


def _agreed(reference, request):
    """How many generated tokens are the reference's choice; at the first near-tie the comparison ends."""
    ids = torch.tensor([request.known])
    logits = reference(ids).logits[0, len(request.prompt) - 1 : -1]
    for i, (row, token) in enumerate(zip(logits, request.output, strict=True)):
        best = row.max()
        if row[token] < best:
            assert best - row[token] < NEAR_TIE, (request.prompt, i)
            return i
    return len(request.output)
