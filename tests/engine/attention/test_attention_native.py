"""The C kernel against the formula: every kind of span, both dtypes, any number of threads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention import choose
from engine.attention.choose import best_attention, is_right
from engine.attention.cpu import CPUAttention
from engine.attention.kernel import plain
from engine.attention.kv import KVTensors
from engine.attention.native import TILE_LANES, NativeAttention, Task, join, split
from engine.attention.plan import Segment, plan_attention
from engine.errors import StartError
from engine.model.config import ModelConfig
from engine.native import build
from tests.engine.processors import on_other_processors

pytestmark = pytest.mark.skipif(build.library() is None or build.openmp() is None, reason="no C compiler")

POOL = 8192
SHAPES = [(9, 3, 64), (6, 2, 16), (4, 4, 128), (8, 1, 32)]


def config(heads, kv_heads, head_dim):
    return ModelConfig("stub", 8, 8, 8, layers=1, heads=heads, kv_heads=kv_heads, head_dim=head_dim, max_context=64)


def compare(shape, dtype, segments, threads=2, scale=1.0, kernel=None):
    """Largest difference between the kernel and the formula in float64 on the same numbers."""
    heads, kv_heads, head_dim = shape
    generator = torch.Generator().manual_seed(1)
    kv, exact = (KVTensors(config(*shape), POOL, kind) for kind in (dtype, torch.float64))
    for pool, copy in zip((*kv.keys, *kv.values), (*exact.keys, *exact.values), strict=True):
        pool.copy_(torch.randn(pool.shape, generator=generator))
        copy.copy_(pool)
    plan = plan_attention(segments)
    q, k, v = (
        torch.randn(plan.tokens, n, head_dim, generator=generator).to(dtype) * factor
        for n, factor in ((heads, scale), (kv_heads, 1), (kv_heads, 1))
    )
    out = NativeAttention(kv, threads, kernel).step(plan)(0, q, k, v)
    expected = CPUAttention(exact, plain).step(plan)(0, q.double(), k.double(), v.double())
    for pool, copy in ((kv.keys[0], exact.keys[0]), (kv.values[0], exact.values[0])):
        assert torch.equal(pool.double(), copy), "k and v are in their slots"
    return float((out.double() - expected).abs().max())


SEGMENTS = {
    "first chunk": [Segment([], [(0, 7)], 7)],
    "one token": [Segment([], [(9, 1)], 1)],
    "chunk and decode share": [Segment([(0, 40)], [(40, 9)], 9), Segment([(0, 30), (60, 4)], [(64, 1)], 1)],
    "branches": [Segment([(0, 333), (400 + 8 * i, i)], [(400 + 8 * i + i, 1)], 1) for i in range(7)],
    "long private contexts": [Segment([(0, 99), (100 + 2000 * i, 1900)], [(2000 * i + 2000, 1)], 1) for i in range(4)],
    "long chunk": [Segment([(0, 3000)], [(4000, 300), (4400, 213)], 513)],
    "fragments": [Segment([(7 * i, 3) for i in range(300)], [(4000 + 2 * i, 1) for i in range(77)], 77)],
    "two chunks on a prefix": [Segment([(0, 1030)], [(2000, 150)], 150), Segment([(0, 1030)], [(3000, 40)], 40)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("segments", SEGMENTS.values(), ids=SEGMENTS.keys())
def test_equals_the_formula(shape, segments):
    assert compare(shape, torch.float32, segments) < 1e-5
    assert compare(shape, torch.bfloat16, segments) < 0.03


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_matter(threads):
    assert compare((9, 3, 64), torch.float32, SEGMENTS["long private contexts"], threads) < 1e-5


@pytest.mark.parametrize("scale", [0.0, 40.0])
def test_flat_and_peaked_scores(scale):
    """All keys equal, or one that outweighs the others by far more than float32 can hold."""
    assert compare((9, 3, 64), torch.float32, SEGMENTS["long chunk"], scale=scale) < 1e-4


@on_other_processors
def test_other_processors(flags, tmp_path):
    kernel = ctypes.CDLL(str(build.compiled(build.find_compiler(), tmp_path, flags)))
    for segments in SEGMENTS.values():
        assert compare((9, 3, 64), torch.float32, segments, kernel=kernel) < 1e-5
        assert compare((9, 3, 64), torch.bfloat16, segments, kernel=kernel) < 0.03
    assert compare((9, 3, 64), torch.float32, SEGMENTS["long chunk"], scale=40.0, kernel=kernel) < 1e-4


@st.composite
def steps(draw):
    shared = draw(st.integers(0, 700))
    free, found = shared, []
    for _ in range(draw(st.integers(1, 4))):
        context = [(0, draw(st.integers(1, shared)))] if shared and draw(st.booleans()) else []
        for length in draw(st.lists(st.integers(1, 300), max_size=3)):
            context.append((free, length))
            free += length + draw(st.integers(0, 2))
        count = draw(st.integers(1, 150))
        found.append(Segment(context, [(free, count)], count))
        free += count
    return found


@settings(max_examples=30, deadline=None)
@given(steps(), st.sampled_from(SHAPES), st.integers(1, 2))
def test_any_step(segments, shape, threads):
    assert compare(shape, torch.float32, segments, threads) < 1e-5


@settings(max_examples=50, deadline=None)
@given(steps(), st.sampled_from(SHAPES), st.integers(1, 16))
def test_tasks_cover_each_pair_once(segments, shape, threads):
    plan = plan_attention(segments)
    rows = np.concatenate([np.asarray(span.rows, np.int64) for span in plan.spans])
    seen: dict[tuple[int, int], int] = {}
    table, merges = join(split(plan, config(*shape), threads), rows, plan.tokens)
    tasks = [Task(*map(int, line)) for line in table]
    for task in tasks:
        assert task.row_count * (shape[0] // shape[1]) <= TILE_LANES
        assert task.end > task.begin
        for i in range(task.row_count):
            visible = task.end if task.causal < 0 else min(task.end, task.causal + task.first_row + i + 1)
            row = int(rows[task.rows + i])
            seen[row, task.runs] = seen.get((row, task.runs), 0) + max(0, visible - task.begin)
    known = [len_of(segment) + i + 1 for segment in segments for i in range(segment.count)]
    assert [sum(n for (r, _), n in seen.items() if r == row) for row in range(plan.tokens)] == known
    final = [row for t in tasks if t.partial < 0 for row in rows[t.rows : t.rows + t.row_count]]
    assert sorted([*final, *merges["merge_tokens"]]) == list(range(plan.tokens))


def len_of(segment):
    return sum(length for _, length in segment.context)


def test_the_kernel_is_chosen_where_it_fits_only():
    shape = config(9, 3, 64)
    assert is_right(shape, torch.float32)
    assert is_right(shape, torch.bfloat16)
    assert isinstance(best_attention(KVTensors(shape, 64, torch.float32)), NativeAttention)
    assert isinstance(best_attention(KVTensors(shape, 64, torch.float32), "torch"), CPUAttention)
    assert isinstance(best_attention(KVTensors(shape, 64, torch.float64)), CPUAttention)
    assert isinstance(best_attention(KVTensors(config(4, 2, 8), 64, torch.float32)), CPUAttention)
    with pytest.raises(StartError, match="heads of 8"):
        best_attention(KVTensors(config(4, 2, 8), 64, torch.float32), "native")


def test_a_wrong_kernel_is_not_used(monkeypatch):
    monkeypatch.setattr(choose, "is_right", lambda *_: False)
    assert isinstance(best_attention(KVTensors(config(9, 3, 64), 64, torch.float32)), CPUAttention)


def test_without_a_compiler_torch_serves(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path))
    build.library.cache_clear()
    try:
        assert build.library() is None
        assert "no-such-compiler" in caplog.text
        assert isinstance(best_attention(KVTensors(config(9, 3, 64), 64, torch.float32)), CPUAttention)
        with pytest.raises(StartError, match="install gcc"):
            best_attention(KVTensors(config(9, 3, 64), 64, torch.float32), "native")
    finally:
        build.library.cache_clear()
