"""Attention in torch operators, for machines without a C compiler: one call per span, merged by log-sum-exp."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.kernel import Kernel, best_kernel
from engine.attention.kv import KVTensors
from engine.attention.plan import AttentionPlan, Span
from engine.attention.runs import Run, cut_runs, expand_runs
from engine.attention.state import AttentionState

GATHER_BASE, GATHER_PER_ROW = 256, 4
"""Runs of fewer slots than base + rows * this, seen by the same `rows` queries, are copied together: a copy costs by
the slot, one more kernel call and merge by the query (measured on one machine, the order of magnitude is general)."""

Slots = Tensor | slice
"""One run is a view of the pool, several are an index to gather with."""


class CPUAttention:
    """Builds the `AttentionStep` of each engine step."""

    def __init__(self, kv: KVTensors, kernel: Kernel | None = None) -> None:
        self.kv = kv
        self.kernel = kernel or best_kernel()

    def step(self, plan: AttentionPlan) -> CPUAttentionStep:
        return CPUAttentionStep(self.kv, self.kernel, plan)


class CPUAttentionStep:
    """One step's attention; the index tensors are made once and serve every layer."""

    def __init__(self, kv: KVTensors, kernel: Kernel, plan: AttentionPlan) -> None:
        self.kv = kv
        self.kernel = kernel
        self.slots = torch.from_numpy(expand_runs(plan.runs))
        self.chunks = [_rows(span.rows) for span in plan.spans if span.causal is not None and len(span.rows) > 1]
        self.reads = [(_rows(span.rows), slots) for span in plan.spans for slots in _reads(span)]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `engine.attention.base.AttentionStep`."""
        self.kv.write(layer, self.slots, k, v)
        state = AttentionState(q, torch.promote_types(q.dtype, torch.float32))
        scale = q.shape[-1] ** -0.5
        for rows in self.chunks:
            self._chunk(state, rows, q, k, v, scale)
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        for rows, slots in self.reads:
            state.merge(rows, *self._folded(q[rows], _read(keys, slots), _read(values, slots), scale))
        return state.out.to(q.dtype)

    def _chunk(self, state: AttentionState, rows: Slots, q: Tensor, k: Tensor, v: Tensor, scale: float) -> None:
        q, k, v = (x[rows].transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        out, lse = self.kernel(q, k, v, scale, causal=True)
        state.merge(rows, out[0].transpose(0, 1), lse[0].transpose(0, 1))

    def _folded(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Fold the query heads of a group into the query axis, so that each key head is read once."""
        tokens, heads, head_dim = q.shape
        group = heads // k.shape[0]
        folded = q.view(tokens, -1, group, head_dim).transpose(0, 1).reshape(1, -1, tokens * group, head_dim)
        out, lse = self.kernel(folded, k.unsqueeze(0), v.unsqueeze(0), scale)
        out = out.view(-1, tokens, group, head_dim).transpose(0, 1).reshape(tokens, heads, head_dim)
        return out, lse.view(-1, tokens, group).transpose(0, 1).reshape(tokens, heads)


def _reads(span: Span) -> list[Slots]:
    """What all rows of the span see, in as many reads as is cheapest: long runs where they lie, short ones copied."""
    alone = span.causal is not None and len(span.rows) > 1
    runs = cut_runs(span.runs, span.causal or 0) if alone else span.runs
    limit = GATHER_BASE + GATHER_PER_ROW * len(span.rows)
    short = [run for run in runs if run[1] < limit]
    reads: list[Slots] = [slice(start, start + length) for start, length in runs if length >= limit]
    return [*reads, _slots(short)] if short else reads


def _slots(runs: list[Run]) -> Slots:
    if len(runs) == 1:
        return slice(runs[0][0], sum(runs[0]))
    return torch.from_numpy(expand_runs(runs))


def _read(pool: Tensor, slots: Slots) -> Tensor:
    """pool: [kv_heads, slots, head_dim]."""
    return pool[:, slots] if isinstance(slots, slice) else pool.index_select(1, slots)


def _rows(rows: tuple[int, ...]) -> Slots:
    """A slice where the rows are consecutive (no copy), an index tensor elsewhere."""
    first, last = rows[0], rows[-1]
    if last - first + 1 == len(rows):
        return slice(first, last + 1)
    return torch.tensor(rows, dtype=torch.int64)
