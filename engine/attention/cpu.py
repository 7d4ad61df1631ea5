"""Attention on a CPU: one kernel call per span for all requests that share it, merged by log-sum-exp."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.kernel import Kernel, best_kernel
from engine.attention.kv import KVTensors
from engine.attention.plan import AttentionPlan, Chunk, Run, Tail
from engine.attention.state import AttentionState


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
        self.plan = plan
        self.slots = torch.tensor(plan.slots, dtype=torch.int64)
        self.spans = [(_slots(span.runs), _rows(span.rows)) for span in plan.spans]
        self.tails = _PaddedTails(plan.tails, kernel, kv.dtype) if plan.tails else None

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `engine.attention.base.AttentionStep`."""
        self.kv.write(layer, self.slots, k, v)
        wide = torch.promote_types(q.dtype, torch.float32)
        state = AttentionState(q, wide)
        scale = q.shape[-1] ** -0.5
        for chunk in self.plan.chunks:
            self._chunk(state, chunk, q, k, v, scale)
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        for slots, rows in self.spans:
            out, lse = self._folded(q[rows], _read(keys, slots), _read(values, slots), scale)
            state.merge(rows, out, lse)
        if self.tails is not None:
            state.merge(self.tails.rows, *self.tails.attend(q, keys, values, scale))
        return state.out.to(q.dtype)

    def _chunk(self, state: AttentionState, chunk: Chunk, q: Tensor, k: Tensor, v: Tensor, scale: float) -> None:
        rows = slice(chunk.first, chunk.first + chunk.count)
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


class _PaddedTails:
    """The short private contexts of decoding requests as one padded batch."""

    def __init__(self, tails: list[Tail], kernel: Kernel, dtype: torch.dtype) -> None:
        self.longest = max(len(tail.slots) for tail in tails)
        padded = [slot for tail in tails for slot in _padded(tail.slots, self.longest)]
        lengths = torch.tensor([len(tail.slots) for tail in tails])
        hidden = torch.arange(self.longest) >= lengths.unsqueeze(1)
        self.rows = _rows(tuple(tail.row for tail in tails))
        self.kernel = kernel
        self.slots = torch.tensor(padded, dtype=torch.int64)
        self.mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, float("-inf"))[:, None, None]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        mine = q[self.rows]
        tails, heads, head_dim = mine.shape
        k, v = (
            x.index_select(1, self.slots).view(-1, tails, self.longest, head_dim).transpose(0, 1)
            for x in (keys, values)
        )
        grouped = mine.view(tails, keys.shape[0], -1, head_dim)
        out, lse = self.kernel(grouped, k, v, scale, mask=self.mask)
        return out.reshape(tails, heads, head_dim), lse.reshape(tails, heads)


def _padded(slots: tuple[int, ...], length: int) -> list[int]:
    return [*slots, *[slots[0]] * (length - len(slots))]


def _slots(runs: tuple[Run, ...]) -> Tensor | slice:
    """One run is a view of the pool, several are an index to gather with."""
    if len(runs) == 1:
        return slice(runs[0][0], sum(runs[0]))
    return torch.cat([torch.arange(start, start + length) for start, length in runs])


def _read(pool: Tensor, slots: Tensor | slice) -> Tensor:
    """pool: [kv_heads, slots, head_dim]."""
    return pool[:, slots] if isinstance(slots, slice) else pool.index_select(1, slots)


def _rows(rows: tuple[int, ...]) -> Tensor | slice:
    """A slice where the rows are consecutive (no copy), an index tensor elsewhere."""
    first, last = rows[0], rows[-1]
    if last - first + 1 == len(rows):
        return slice(first, last + 1)
    return torch.tensor(rows, dtype=torch.int64)
