from __future__ import annotations

import math

import pytest
import torch

from engine.errors import StartError
from engine.model.config import ModelConfig
from engine.model.rope import Rope, rotate, scaled_frequencies

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip


def config(scaling=None, head_dim=16):
    return ModelConfig("llama", 10, 32, 32, 1, 2, 1, head_dim, 64, rope_theta=10000.0, rope_scaling=scaling)


def test_a_pair_turns_by_position_times_frequency():
    x = torch.zeros(1, 1, 16)
    x[0, 0, 2] = 1.0  # the third frequency: 10000 ** (-4 / 16) = 0.1
    turned = rotate(x, Rope(config()).at(torch.tensor([7])))[0, 0]
    assert turned[2].item() == pytest.approx(math.cos(0.7), abs=1e-6)
    assert turned[10].item() == pytest.approx(math.sin(0.7), abs=1e-6)
    assert turned.norm().item() == pytest.approx(1.0, abs=1e-6)


def test_scores_depend_on_distance_only():
    rope = Rope(config())
    q, k = torch.randn(1, 1, 16), torch.randn(1, 1, 16)

    def score(at_q, at_k):
        turned = [rotate(x, rope.at(torch.tensor([p]))).flatten() for x, p in ((q, at_q), (k, at_k))]
        return torch.dot(*turned).item()

    assert score(9, 4) == pytest.approx(score(55, 50), abs=1e-4)


def test_llama3_keeps_short_waves_and_stretches_long_ones():
    plain, scaled = scaled_frequencies(config()), scaled_frequencies(config(LLAMA3))
    assert scaled[0] == plain[0]
    assert scaled[-1].item() == pytest.approx(plain[-1].item() / 8)
    assert torch.all(scaled <= plain)


def test_factors_divide_each_frequency():
    factors = tuple(float(n) for n in range(1, 9))
    scaled = scaled_frequencies(config({"rope_type": "factors", "factors": factors}))
    torch.testing.assert_close(scaled * torch.tensor(factors), scaled_frequencies(config()))


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ({"rope_type": "ntk", "factor": 4.0}, "'ntk' is not supported.*linear, llama3, factors, yarn"),
        ({"rope_type": "yarn"}, "not usable.*factor"),
        ({"rope_type": "llama3", "factor": 4.0}, "not usable.*original_max_position_embeddings"),
        ({"rope_type": "linear", "factor": "many"}, "not usable"),
        ({"rope_type": "factors", "factors": (1.0,)}, "1 factors for 8"),
    ],
)
def test_what_is_not_known_is_refused(scaling, words):
    with pytest.raises(StartError, match=words):
        scaled_frequencies(config(scaling))
