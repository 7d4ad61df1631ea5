"""An attention without pages or spans, so that decoders are tested without a cache."""

from __future__ import annotations

import pytest
import torch


class PlainAttention:
    """One sequence: every layer's keys and values in a list, causal attention in float32."""

    def __init__(self, config):
        self.keys, self.values, self.config = {}, {}, config

    def __call__(self, layer, q, k, v):
        self.keys[layer] = torch.cat([self.keys[layer], k]) if layer in self.keys else k.clone()
        self.values[layer] = torch.cat([self.values[layer], v]) if layer in self.values else v.clone()
        group = q.shape[1] // k.shape[1]
        keys = self.keys[layer].repeat_interleave(group, 1).float()
        values = self.values[layer].repeat_interleave(group, 1).float()
        scores = torch.einsum("qhd,khd->hqk", q.float(), keys) / q.shape[-1] ** 0.5
        past = len(keys) - len(q)
        hidden = torch.ones(len(q), len(keys), dtype=torch.bool).triu(past + 1)
        if self.config.window and layer not in self.config.whole_layers:
            hidden |= torch.ones(len(q), len(keys), dtype=torch.bool).tril(past - self.config.window)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)


def run(decoder, ids, cuts=()):
    """Logits of every token of one sequence, computed in chunks that end at `cuts`."""
    attend, logits, start = PlainAttention(decoder.config), [], 0
    for stop in [*cuts, len(ids)]:
        rows = torch.arange(stop - start)
        logits.append(decoder.forward(ids[start:stop], torch.arange(start, stop), rows, attend))
        start = stop
    return torch.cat(logits)


@pytest.fixture(autouse=True, scope="module")
def _two_threads(two_threads):
    """A decoder that only computes right in one thread would pass otherwise."""


@pytest.fixture(scope="session")
def plain_attention():
    return PlainAttention


@pytest.fixture(scope="session")
def run_decoder():
    return run


@pytest.fixture(scope="session")
def relative_error():
    return lambda ours, theirs: float((ours - theirs).norm() / theirs.norm())
