from __future__ import annotations

import pytest
import torch

from engine.errors import StartError
from engine.model.dtype import choose_dtype, pick
from engine.model.linear import Linear, PackedLinear, projection


def machine(decode_gain, prefill_gain):
    """Timings of a machine on which bfloat16 is that many times as fast."""
    gains = {1: decode_gain, 256: prefill_gain}
    return lambda dtype, rows: 1.0 if dtype == torch.float32 else 1.0 / gains[rows]


@pytest.mark.parametrize(
    ("decode_gain", "prefill_gain", "expected"),
    [
        (1.5, 8.0, torch.bfloat16),
        (1.0, 6.0, torch.bfloat16),
        (0.5, 6.0, torch.float32),
        (1.5, 1.1, torch.float32),
        (0.4, 0.2, torch.float32),
    ],
)
def test_bfloat16_must_pay(decode_gain, prefill_gain, expected):
    assert pick(machine(decode_gain, prefill_gain)) == expected


def test_a_named_dtype_is_taken_and_auto_measures():
    assert choose_dtype("float32") == torch.float32
    assert choose_dtype("bfloat16") == torch.bfloat16
    assert choose_dtype("auto") in (torch.float32, torch.bfloat16)


def test_an_unknown_dtype_is_refused():
    with pytest.raises(StartError, match="no dtype named 'int8'"):
        choose_dtype("int8")


@pytest.mark.parametrize("rows", [0, 1, 3, 64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_packed_linear_computes_the_same(rows, with_bias):
    torch.manual_seed(5)
    weight, x = torch.randn(70, 33).bfloat16(), torch.randn(rows, 33).bfloat16()
    bias = torch.randn(70).bfloat16() if with_bias else None
    expected = x.float() @ weight.float().T + (0 if bias is None else bias.float())
    torch.testing.assert_close(projection(weight, bias)(x).float(), expected, rtol=0.02, atol=0.1)


def test_only_bfloat16_is_packed():
    assert isinstance(projection(torch.ones(8, 8)), Linear)
    assert isinstance(projection(torch.ones(8, 8).bfloat16()), Linear | PackedLinear)
