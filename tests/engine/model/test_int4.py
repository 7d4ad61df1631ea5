"""4-bit weights multiplied as stored: the same numbers up to rounding, and used only where that is faster."""

from __future__ import annotations

import json

import pytest
import torch

from engine.model import load_decoder
from engine.model.calibration import ROWS, Calibration, crossover, processor
from engine.model.linear import ByRows, int4_projection
from engine.model.llama import LlamaDecoder
from engine.weights.blocks import stack

TEXT = (
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n"
    "The quick brown fox jumps over the lazy dog. A stitch in time saves nine. In the beginning was the word, and "
    "the capital of France is Paris. Water boils at one hundred degrees, and freezes at zero. She opened the door, "
    "looked around the room, and saw that nobody was there. for i in range(10):\n    print(i)\n"
)
EVERY_ROW = 1 << 30


class Always(Calibration):
    """4 bits for any number of rows, so that the whole text goes through them."""

    def __init__(self):
        super().__init__(None)

    def rows(self, name, few, many, example):
        return EVERY_ROW


@pytest.mark.parametrize("name", ["layers.3.self_attn.q_proj", "layers.3.mlp.down_proj", "embed_tokens"])
def test_blocks_are_the_weights(smollm2_checkpoint, name):
    name = f"model.{name}.weight"
    blocks = smollm2_checkpoint.blocks(name)
    scale, minimum = (part.float().repeat_interleave(32, 1) for part in (blocks.scale, blocks.offset))
    assert torch.allclose(blocks.codes * scale + minimum, smollm2_checkpoint.tensor(name, torch.float32), atol=1e-6)


def test_other_types_have_no_blocks(smollm2_checkpoint):
    assert smollm2_checkpoint.blocks("model.norm.weight") is None


def test_blocks_of_other_kinds_are_not_stacked(smollm2_checkpoint):
    four, eight = (
        smollm2_checkpoint.blocks(f"model.{name}.weight") for name in ("layers.0.mlp.up_proj", "embed_tokens")
    )
    assert stack([four, four]).codes.shape == (2 * len(four.codes), four.codes.shape[1])
    assert stack([four, eight]) is None
    assert stack([four, None]) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 17])
def test_the_product_is_that_of_the_weights(smollm2_checkpoint, dtype, rows):
    name = "model.layers.0.mlp.up_proj.weight"
    weight = smollm2_checkpoint.tensor(name, torch.float32)
    x, bias = torch.randn(rows, weight.shape[1]).to(dtype), torch.randn(len(weight)).to(dtype)
    ours = int4_projection(smollm2_checkpoint.blocks(name), bias)(x)
    exact = x.float() @ weight.T + bias.float()
    assert ours.dtype is dtype
    assert (ours.float() - exact).norm() / exact.norm() < 1e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_perplexity_stays_within_one_percent(smollm2_checkpoint, smollm2_tokenizer, run_decoder, dtype):
    ids = torch.tensor(smollm2_tokenizer.encode(TEXT))
    exact = perplexity(run_decoder(load_decoder(smollm2_checkpoint, torch.float32), ids), ids)
    four_bit = LlamaDecoder(smollm2_checkpoint.config, smollm2_checkpoint, dtype, Always())
    assert abs(perplexity(run_decoder(four_bit, ids), ids) / exact - 1) < 0.01


def perplexity(logits, ids):
    return float(torch.nn.functional.cross_entropy(logits[:-1], ids[1:]).exp())


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2_checkpoint):
    from engine.prompt.tokenizer import load_tokenizer

    return load_tokenizer(smollm2_checkpoint.metadata, smollm2_checkpoint.folder)


@pytest.mark.parametrize("faster_up_to", [0, 1, 8, 512])
def test_the_limit_is_where_the_other_kernel_wins(faster_up_to):
    few, many = object(), object()
    assert crossover(lambda kernel, rows: 1.0 if kernel is many or rows > faster_up_to else 0.5, few, many) == (
        faster_up_to
    )


def test_a_disturbed_measurement_hides_one_size_only():
    few, many = object(), object()
    slow = {(few, 1): 9.0, (few, 8): 9.0, (few, 64): 9.0, (few, 128): 9.0}
    assert crossover(lambda kernel, rows: slow.get((kernel, rows), 1.0 if kernel is many else 0.5), few, many) == 32


def test_a_tie_is_not_worth_the_rounding():
    assert crossover(lambda kernel, rows: 1.0, object(), object()) == 0


def test_rows_decide_the_form():
    project = ByRows(lambda x: "few", lambda x: "many", 4)
    assert [project(torch.ones(rows, 1)) for rows in (1, 4, 5)] == ["few", "few", "many"]


def test_each_machine_is_measured_once(tmp_path):
    path, asked = tmp_path / "home" / "calibration.json", []

    def kernel(x):
        asked.append(len(x))
        return x

    first = Calibration(path)
    limit = first.rows("a", kernel, kernel, lambda rows: torch.ones(rows, 1))
    first.save()
    measured = len(asked)
    assert measured
    assert Calibration(path).rows("a", kernel, kernel, lambda rows: torch.ones(rows, 1)) == limit
    assert len(asked) == measured


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"x": 1}', "\x00"])
def test_a_damaged_file_is_measured_anew(tmp_path, damage):
    path = tmp_path / "calibration.json"
    path.write_text(damage)
    calibration = Calibration(path)
    assert calibration.rows("a", lambda x: x, lambda x: x, lambda rows: torch.ones(rows, 1)) in (0, *ROWS)
    calibration.save()
    assert json.loads(path.read_text())


def test_processors_of_one_name_that_can_do_different_things_are_not_mixed_up(monkeypatch):
    def described(text):
        monkeypatch.setattr("pathlib.Path.read_text", lambda self: text)
        return processor()

    plain = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: avx2 avx512f\n\nprocessor\t: 1\n"
    assert described(plain) == described(plain.replace("avx2 avx512f", "avx512f avx2"))
    assert described(plain) != described(plain.replace("avx512f", "avx512f amx_tile"))
    assert described(plain).startswith("Some CPU (")
    assert described("")
