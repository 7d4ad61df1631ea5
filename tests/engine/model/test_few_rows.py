"""The C kernel for few rows computes what torch computes with the same weights, up to the rounding of its inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.attention.kv import KVTensors
from engine.attention.native import NativeAttention
from engine.attention.plan import Segment, plan_attention
from engine.model import load_decoder
from engine.model.calibration import ROWS, Calibration
from engine.model.config import ModelConfig
from engine.model.few import AGREEMENT, ByRowsDecoder, FewRows, measured_limit
from engine.model.llama import LlamaDecoder
from engine.native import build
from engine.weights.blocks import Blocks

pytestmark = pytest.mark.skipif(
    build.library() is None or build.openmp() is None or not build.library().sapwood_can_decode(),
    reason="no C compiler, or no 8-bit dot products",
)

LICENSE = Path(__file__).parents[3] / "LICENSE"
DTYPES = [torch.float32, torch.bfloat16]
TEXT = (
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n"
    "The quick brown fox jumps over the lazy dog. The capital of France is Paris. Water boils at one hundred degrees, "
    "and freezes at zero. She opened the door, looked around the room, and saw that nobody was there.\n"
)


class RandomBlocks:
    """A checkpoint of random quantised matrices: `kinds` says (bits, zero) by the last part of a name."""

    name, folder, metadata = "random", None, {}

    def __init__(self, config, kinds):
        self.config = config
        self.kinds = kinds
        self.made = {}

    def shape(self, name):
        return self.shapes()[name]

    def shapes(self):
        c = self.config
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        found = {"model.embed_tokens.weight": (c.vocab_size, c.hidden_size), "model.norm.weight": (c.hidden_size,)}
        for i in range(c.layers):
            p = f"model.layers.{i}"
            for norm in ("input_layernorm", "post_attention_layernorm"):
                found[f"{p}.{norm}.weight"] = (c.hidden_size,)
            for part, rows, columns in (
                ("self_attn.q_proj", q, c.hidden_size),
                ("self_attn.k_proj", kv, c.hidden_size),
                ("self_attn.v_proj", kv, c.hidden_size),
                ("self_attn.o_proj", c.hidden_size, q),
                ("mlp.gate_proj", c.intermediate_size, c.hidden_size),
                ("mlp.up_proj", c.intermediate_size, c.hidden_size),
                ("mlp.down_proj", c.hidden_size, c.intermediate_size),
            ):
                found[f"{p}.{part}.weight"], found[f"{p}.{part}.bias"] = (rows, columns), (rows,)
        return found

    def has(self, name):
        return name in self.shapes()

    def blocks(self, name):
        shape = self.shape(name)
        if len(shape) == 1:
            return None
        if name not in self.made:
            bits, zero = self.kinds.get(name.split(".")[-2], (4, None))
            scale = torch.rand(shape[0], shape[1] // 32) * (0.3 / 2**bits)
            minimum = None if zero is not None else (-(2 ** (bits - 1)) * scale * (0.5 + torch.rand_like(scale))).half()
            codes = torch.randint(0, 2**bits, shape, dtype=torch.uint8)
            self.made[name] = Blocks(codes, scale.half(), minimum, bits, zero or 0)
        return self.made[name]

    def tensor(self, name, dtype):
        blocks = self.blocks(name)
        if blocks is None:
            self.made.setdefault(name, torch.randn(self.shape(name)) * 0.1 + (1 if name.endswith("norm.weight") else 0))
            return self.made[name].to(dtype)
        scale, offset = (part.float().repeat_interleave(32, 1) for part in (blocks.scale, blocks.offset))
        return (blocks.codes * scale + offset).to(dtype)


def random_checkpoint(kinds, heads=4, kv_heads=2, head_dim=32, bias=False):
    torch.manual_seed(0)
    config = ModelConfig(
        "qwen2", vocab_size=160, hidden_size=96, intermediate_size=224, layers=2, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, max_context=512, tied_head=True, attention_bias=bias, output_bias=bias, mlp_bias=bias,
    )  # fmt: skip
    return RandomBlocks(config, kinds)


def logits(decoder, many, ids, cuts=(), rows=None):
    """Of one sequence, in chunks that end at `cuts`."""
    attention = NativeAttention(KVTensors(many.config, 1024, many.dtype))
    found, start = [], 0
    with torch.inference_mode():
        for stop in [*cuts, len(ids)]:
            step = attention.step(plan_attention([Segment([(0, start)], [(start, stop - start)], stop - start)]))
            wanted = torch.arange(stop - start) if rows is None else rows
            found.append(decoder.forward(ids[start:stop], torch.arange(start, stop), wanted, step))
            start = stop
    return torch.cat(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kinds", [{}, {"embed_tokens": (8, 128)}, {"down_proj": (4, 8)}, {"o_proj": (8, 128)}])
@pytest.mark.parametrize("shape", [(4, 2, 32), (6, 1, 16), (2, 2, 64)])
@pytest.mark.parametrize("bias", [False, True])
def test_equals_torch(kinds, shape, bias, dtype):
    checkpoint = random_checkpoint(kinds, *shape, bias)
    many = LlamaDecoder(checkpoint.config, checkpoint, dtype)
    exact = LlamaDecoder(checkpoint.config, checkpoint, torch.float32)
    ids = torch.randint(0, 160, (43,))
    ours = logits(FewRows(checkpoint, many), many, ids, cuts=(1, 2, 11, 27))
    theirs = logits(exact, exact, ids)
    assert (ours - theirs).norm() / theirs.norm() < 0.06


def test_only_the_wanted_rows_are_returned(smollm2_checkpoint):
    many = LlamaDecoder(smollm2_checkpoint.config, smollm2_checkpoint, torch.float32)
    few = FewRows(smollm2_checkpoint, many)
    ids = torch.arange(100, 119)
    every = logits(few, many, ids)
    assert torch.equal(logits(few, many, ids, rows=torch.tensor([18, 3])), every[[18, 3]])
    assert logits(few, many, ids, rows=torch.tensor([], dtype=torch.int64)).shape == (0, many.config.vocab_size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_the_rows_beside_it(smollm2_checkpoint, dtype):
    many = LlamaDecoder(smollm2_checkpoint.config, smollm2_checkpoint, dtype)
    few = FewRows(smollm2_checkpoint, many)
    attention = NativeAttention(KVTensors(many.config, 64, dtype))
    ids = torch.arange(1000, 1019)

    def run(ids):
        step = attention.step(plan_attention([Segment([], [(i, 1)], 1) for i in range(len(ids))]))
        return few.forward(ids, torch.zeros_like(ids), torch.arange(len(ids)), step)

    together = run(ids)
    assert all(torch.equal(run(ids[i : i + 1])[0], together[i]) for i in range(len(ids)))


@pytest.fixture(scope="module")
def licence(smollm2_checkpoint):
    """900 tokens, and their perplexity as torch computes it in float32."""
    from engine.prompt.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(smollm2_checkpoint.metadata, smollm2_checkpoint.folder)
    ids = torch.tensor(tokenizer.encode(TEXT + LICENSE.read_text()))[:900]
    exact = LlamaDecoder(smollm2_checkpoint.config, smollm2_checkpoint, torch.float32)
    return ids, perplexity(logits(exact, exact, ids), ids)


@pytest.mark.parametrize("dtype", DTYPES)
def test_perplexity_stays_within_one_percent(smollm2_checkpoint, licence, dtype):
    ids, exact = licence
    many = LlamaDecoder(smollm2_checkpoint.config, smollm2_checkpoint, dtype)
    few = FewRows(smollm2_checkpoint, many)
    assert abs(perplexity(logits(few, many, ids), ids) / exact - 1) < 0.01


def perplexity(found, ids):
    return float(torch.nn.functional.cross_entropy(found[:-1], ids[1:]).exp())


class Counted:
    def __init__(self, decoder):
        self.decoder, self.config, self.rows = decoder, decoder.config, []

    def forward(self, ids, *rest):
        self.rows.append(len(ids))
        return self.decoder.forward(ids, *rest)


def test_rows_decide_who_computes():
    checkpoint = random_checkpoint({})
    many = LlamaDecoder(checkpoint.config, checkpoint, torch.float32)
    few, rest = Counted(FewRows(checkpoint, many)), Counted(many)
    logits(ByRowsDecoder(few, rest, 8), many, torch.randint(0, 160, (30,)), cuts=(1, 9, 18))
    assert (few.rows, rest.rows) == ([1, 8], [9, 12])


def test_hidden_states_come_from_the_decoder_for_many_rows(plain_attention):
    checkpoint = random_checkpoint({})
    many = LlamaDecoder(checkpoint.config, checkpoint, torch.float32)
    ids, positions = torch.randint(0, 160, (5,)), torch.arange(5)
    ours = ByRowsDecoder(FewRows(checkpoint, many), many, 8).hidden(ids, positions, plain_attention(many.config))
    assert ours.shape == (5, checkpoint.config.hidden_size)
    assert torch.equal(ours, many.hidden(ids, positions, plain_attention(many.config)))


def test_a_kernel_that_computes_something_else_is_not_used():
    checkpoint = random_checkpoint({})
    many = LlamaDecoder(checkpoint.config, checkpoint, torch.float32)
    assert measured_limit(FewRows(checkpoint, many), many, Calibration(None)) in (0, *ROWS)
    other = random_checkpoint({})
    other.made = {}
    torch.manual_seed(1)
    other.blocks("model.embed_tokens.weight")
    wrong = FewRows(other, many)

    class Unasked(Calibration):
        def rows(self, *_):
            raise AssertionError("it is not worth a measurement")

    assert measured_limit(wrong, many, Unasked(None)) == 0
    assert AGREEMENT < 0.5


def test_models_without_blocks_are_served_by_torch():
    checkpoint = random_checkpoint({})
    checkpoint.blocks = lambda name: None
    checkpoint.tensor = lambda name, dtype: torch.zeros(checkpoint.shape(name), dtype=dtype)
    assert isinstance(load_decoder(checkpoint, torch.float32, Calibration(None)), LlamaDecoder)
