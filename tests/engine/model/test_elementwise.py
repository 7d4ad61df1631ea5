"""The C kernel and torch's operators agree, and change what they may change only."""

from __future__ import annotations

import ctypes

import pytest
import torch

from engine.model.config import ModelConfig
from engine.model.elementwise import NativeElementwise, TorchElementwise, best_elementwise
from engine.model.rope import Rope
from engine.native import build
from tests.engine.processors import on_other_processors

pytestmark = pytest.mark.skipif(build.library() is None or build.openmp() is None, reason="no C compiler")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.03}


def config(head_dim=32, hidden=64, inner=96):
    return ModelConfig("stub", 8, hidden, inner, layers=1, heads=4, kv_heads=2, head_dim=head_dim, max_context=64)


def close(a, b):
    torch.testing.assert_close(a, b, atol=TOLERANCE[a.dtype], rtol=TOLERANCE[a.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 100])
def test_both_agree(dtype, rows):
    torch.manual_seed(rows)
    native, plain = NativeElementwise(), TorchElementwise()
    x, added = torch.randn(2, rows, 64).to(dtype)
    weight = torch.randn(64)
    for extra in (None, added):
        ours, theirs = x.clone(), x.clone()
        close(native.norm(ours, extra, weight, 1e-5), plain.norm(theirs, extra, weight, 1e-5))
        assert torch.equal(ours, theirs), "the residual is rounded once"
    pairs = torch.randn(rows, 192).to(dtype) * 5
    close(native.gate(pairs), plain.gate(pairs))
    heads = torch.randn(rows, 8, 32).to(dtype)
    rotation = Rope(config()).at(torch.arange(rows) * 37)
    expected = plain.turn(heads, 6, rotation).clone()
    values = heads[:, 6:].clone()
    close(native.turn(heads, 6, rotation), expected)
    assert torch.equal(heads[:, 6:], values)


def test_extreme_gates():
    x = torch.tensor([[-1e4, -100.0, 0.0, 100.0] * 4 + [1.0] * 16])
    assert torch.allclose(NativeElementwise().gate(x), TorchElementwise().gate(x), atol=1e-6)


@on_other_processors
def test_extreme_gates_elsewhere(flags, tmp_path, monkeypatch):
    kernel = ctypes.CDLL(str(build.compiled(build.find_compiler(), tmp_path, flags)))
    monkeypatch.setattr("engine.model.elementwise.library", lambda: kernel)
    test_extreme_gates()


def test_the_kernel_is_chosen_where_it_fits():
    assert isinstance(best_elementwise(config(), torch.bfloat16), NativeElementwise)
    assert isinstance(best_elementwise(config(), torch.float64), TorchElementwise)
    assert isinstance(best_elementwise(config(head_dim=16), torch.float32), TorchElementwise)
    assert isinstance(best_elementwise(config(hidden=72), torch.float32), TorchElementwise)
    assert isinstance(best_elementwise(config(inner=72), torch.float32), TorchElementwise)
