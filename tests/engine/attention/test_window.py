"""Layers with a sliding window against the formula, whatever runs the slots lie in and however a prompt is cut."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention.choose import best_attention
from engine.attention.cpu import CPUAttention
from engine.attention.kernel import plain
from engine.attention.kv import KVTensors
from engine.attention.plan import Segment, plan_attention
from engine.attention.window import WindowedAttention
from engine.model.config import ModelConfig
from tests.examples import examples

WINDOW, SLOTS = 5, 64
CONFIG = ModelConfig(
    "gemma3_text", vocab_size=9, hidden_size=32, intermediate_size=32, layers=2, heads=4, kv_heads=2, head_dim=16,
    max_context=SLOTS, window=WINDOW, whole_layers=frozenset({1}),
)  # fmt: skip


def runs_of(slots):
    """Neighbours together, as a cache hands them out."""
    runs = []
    for slot in slots:
        if runs and sum(runs[-1]) == slot:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs


@st.composite
def requests(draw):
    """[(slots of the context, slots of the step's tokens)] over one pool, in any order of slots."""
    free = draw(st.permutations(range(SLOTS)))
    if draw(st.booleans()):
        free = sorted(free)
    found = []
    for _ in range(draw(st.integers(1, 3))):
        context, own = draw(st.integers(0, 11)), draw(st.integers(1, 1 if draw(st.booleans()) else 8))
        found.append((free[:context], free[context : context + own]))
        free = free[context + own :]
    return found


@settings(max_examples=examples(40), deadline=None)
@given(requests(), st.sampled_from([0, 1]))
def test_a_token_sees_the_window_and_no_more(mix, layer):
    attention = WindowedAttention(CPUAttention(KVTensors(CONFIG, SLOTS, torch.float32), plain))
    check(attention, mix, layer, 1e-5)


@pytest.mark.parametrize("tokens", [1, 6])
def test_the_machines_own_attention_serves_the_rest(tokens):
    attention = best_attention(KVTensors(CONFIG, SLOTS, torch.float32))
    mix = [(list(range(20)), list(range(20, 20 + tokens))), (list(range(40, 43)), list(range(50, 50 + tokens)))]
    for layer in (0, 1):
        check(attention, mix, layer, 1e-3)


def check(attention, mix, layer, tolerance):
    generator = torch.Generator().manual_seed(1)
    kv = attention.kv
    for pool in (*kv.keys, *kv.values):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    plan = plan_attention([Segment(runs_of(context), runs_of(own), len(own)) for context, own in mix])
    q, k, v = (torch.randn(plan.tokens, heads, 16, generator=generator) for heads in (4, 2, 2))
    out = attention.step(plan)(layer, q, k, v)
    row = 0
    for context, own in mix:
        for index in range(len(own)):
            seen = [*context, *own[: index + 1]]
            seen = seen if layer == 1 else seen[-WINDOW:]
            keys, values = (pool[layer][:, seen].repeat_interleave(2, 0) for pool in (kv.keys, kv.values))
            weights = (torch.einsum("hd,hkd->hk", q[row], keys) / 4).softmax(-1)
            expected = torch.einsum("hk,hkd->hd", weights, values)
            torch.testing.assert_close(out[row], expected, atol=tolerance, rtol=tolerance)
            row += 1
