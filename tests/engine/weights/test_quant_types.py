"""Every type against the `gguf` package's own dequantisation, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from engine.weights import quant
from engine.weights.quant import QuantType, block_layout, dequantise

ROWS, COLUMNS = 37, 96
SUPER_COLUMNS = 512
WRITTEN = [kind for kind in QuantType if kind not in quant.SUPER_BYTES]
"""Types that the `gguf` package can write; it reads all."""


def stored(kind, values):
    return gguf.quantize(values, gguf.GGMLQuantizationType(kind.value))


def ours(kind, raw, dtype=torch.float32):
    columns = SUPER_COLUMNS if kind in quant.SUPER_BYTES else COLUMNS
    out = torch.empty(ROWS, columns, dtype=dtype)
    dequantise(torch.from_numpy(np.ascontiguousarray(raw).view(np.uint8).reshape(-1).copy()), kind, out)
    return out


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(2).normal(0, 3, (ROWS, COLUMNS)).astype(np.float32)


@pytest.mark.parametrize("kind", WRITTEN)
def test_equal_to_the_reference(kind, values):
    raw = stored(kind, values)
    expected = gguf.dequantize(raw, gguf.GGMLQuantizationType(kind.value))
    np.testing.assert_array_equal(ours(kind, raw).numpy(), expected)


@pytest.mark.parametrize("kind", [QuantType.Q4_0, QuantType.Q4_1, QuantType.Q5_0, QuantType.Q5_1, QuantType.Q8_0])
def test_any_bytes_decode_like_the_reference(kind):
    """Also codes and constants that no quantiser writes (subnormal scales, unused codes)."""
    _, size = block_layout(kind)
    raw = np.random.default_rng(3).integers(0, 256, (ROWS, COLUMNS // 32 * size), dtype=np.uint8)
    blocks = raw.reshape(-1, size)
    blocks[:, 1] &= 0x3F  # float16 exponents below infinity
    if kind in (QuantType.Q4_1, QuantType.Q5_1):
        blocks[:, 3] &= 0x3F
    expected = gguf.dequantize(raw, gguf.GGMLQuantizationType(kind.value))
    np.testing.assert_array_equal(ours(kind, raw).numpy(), expected)


@pytest.mark.parametrize("kind", quant.SUPER_BYTES)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_any_bytes_of_a_super_block_decode_like_the_reference(kind, chunk, monkeypatch):
    monkeypatch.setattr(quant, "CHUNK", chunk)
    elements, size = block_layout(kind)
    raw = np.random.default_rng(4).integers(0, 256, (ROWS, SUPER_COLUMNS // elements * size), dtype=np.uint8)
    blocks = raw.reshape(-1, size)
    for constant in {QuantType.Q6_K: (209,)}.get(kind, (1, 3)):
        blocks[:, constant] &= 0x3F  # float16 exponents below infinity
    expected = gguf.dequantize(raw, gguf.GGMLQuantizationType(kind.value))
    np.testing.assert_array_equal(ours(kind, raw).numpy(), expected)


@pytest.mark.parametrize("kind", WRITTEN)
def test_chunks_and_target_type_change_nothing(kind, values, monkeypatch):
    raw = stored(kind, values)
    whole = ours(kind, raw)
    monkeypatch.setattr(quant, "CHUNK", 160)
    assert torch.equal(ours(kind, raw), whole)
    assert torch.equal(ours(kind, raw, torch.bfloat16), whole.bfloat16())


@pytest.mark.parametrize("kind", QuantType)
def test_block_sizes_are_those_of_the_format(kind):
    assert block_layout(kind) == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind.value)]
