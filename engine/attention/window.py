"""Sliding windows: layers in which a token sees only the newest `window` tokens, itself included.

A step in which every request has one token needs nothing new: its context is cut to the window, and the machine's own
attention does the rest. A chunk of a prompt is different for each of its tokens, so those layers are computed here, one
request at a time, over the slots that any of its tokens sees, under a banded mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.attention.base import Attention, AttentionStep
from engine.attention.kernel import Kernel, plain
from engine.attention.kv import KVTensors
from engine.attention.plan import AttentionPlan, Segment, plan_attention
from engine.attention.runs import Run, cut_runs, expand_runs, total


class WindowedAttention:
    """An `Attention` for models some of whose layers have a window; `whole` serves the others."""

    def __init__(self, whole: Attention, kernel: Kernel = plain) -> None:
        self.kv = whole.kv
        self._whole, self._kernel = whole, kernel
        assert self.kv.config.window is not None
        self._window = self.kv.config.window

    def step(self, plan: AttentionPlan) -> AttentionStep:
        local: AttentionStep
        if all(segment.count == 1 for segment in plan.segments):
            local = self._whole.step(plan_attention([_cut(segment, self._window) for segment in plan.segments]))
        else:
            local = BandedStep(self.kv, self._kernel, plan, self._window)
        return _ByLayer(self._whole.step(plan), local, self.kv.config.whole_layers)


class _ByLayer:
    def __init__(self, whole: AttentionStep, local: AttentionStep, whole_layers: frozenset[int]) -> None:
        self._whole, self._local, self._whole_layers = whole, local, whole_layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (self._whole if layer in self._whole_layers else self._local)(layer, q, k, v)


class BandedStep:
    """One step's windowed layers; masks and indices are made once and serve all of them."""

    def __init__(self, kv: KVTensors, kernel: Kernel, plan: AttentionPlan, window: int) -> None:
        self._kv, self._kernel = kv, kernel
        self._slots = torch.from_numpy(expand_runs(plan.runs))
        self._parts: list[tuple[slice, Tensor, Tensor]] = []
        first = 0
        for segment in plan.segments:
            rows = slice(first, first + segment.count)
            first = rows.stop
            seen = _cut(segment, window)
            runs = [*seen.context, *cut_runs(segment.slots, segment.count)]
            self._parts.append(
                (rows, torch.from_numpy(expand_runs(runs)), band(segment.count, total(seen.context), window))
            )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `engine.attention.base.AttentionStep`."""
        self._kv.write(layer, self._slots, k, v)
        out, scale = torch.empty_like(q), q.shape[-1] ** -0.5
        for rows, slots, mask in self._parts:
            keys, values = (pool[layer].index_select(1, slots)[None] for pool in (self._kv.keys, self._kv.values))
            queries = q[rows].transpose(0, 1)[None]
            out[rows] = self._kernel(queries, keys, values, scale, mask=mask)[0][0].transpose(0, 1)
        return out


def band(rows: int, context: int, window: int) -> Tensor:
    """float32 [1, 1, rows, context + rows]: 0 where a row sees a token, -inf where not. Rows are the last tokens."""
    distance = torch.arange(context, context + rows).unsqueeze(1) - torch.arange(context + rows)
    hidden = (distance < 0) | (distance >= window)
    return torch.zeros(distance.shape).masked_fill(hidden, float("-inf"))[None, None]


def _cut(segment: Segment, window: int) -> Segment:
    """The context that the segment's first token, and so any of them, still sees."""
    return Segment(_tail(segment.context, window - 1), segment.slots, segment.count)


def _tail(runs: Sequence[Run], length: int) -> list[Run]:
    kept: list[Run] = []
    for start, size in reversed(runs):
        if length <= 0:
            break
        part = min(size, length)
        kept.append((start + size - part, part))
        length -= part
    return kept[::-1]
