"""Attention by the C kernel: a step becomes a list of tasks, which all layers share.

A task is a tile of a span's query rows over a range of its KV, small enough that all threads end together. A token
whose KV is in one task gets its result at once; where several tasks see the same token, the kernel merges what they
leave by log-sum-exp. `engine/native/attention.c` says what the fields mean.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.kv import KVTensors
from engine.attention.plan import AttentionPlan
from engine.attention.runs import expand_runs
from engine.model.config import ModelConfig
from engine.native.build import library, openmp

TILE_LANES = 384
"""Query rows times heads of a group in one task at most: they share what is prepared of each block of KV."""

BLOCK = 128
SHORTEST = 4 * BLOCK
"""A range of KV is not split below this: what a part leaves must be merged."""

TASKS_PER_THREAD = 6
"""As many tasks of equal size make the threads end within a sixth of each other."""

Ints = NDArray[np.int64]


class Task(NamedTuple):
    """The fields of the kernel's struct, in its order."""

    rows: int
    row_count: int
    runs: int
    run_count: int
    begin: int
    end: int
    causal: int
    first_row: int
    partial: int = -1

    @property
    def cost(self) -> int:
        return (self.row_count + 4) * (self.end - self.begin)


class _Plan(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("tokens", "heads", "kv_heads", "head_dim", "pool_slots", "bits")),
        *((name, c_int64) for name in ("task_count", "merge_count", "threads")),
        *((name, c_void_p) for name in ("tasks", "slots", "rows", "runs")),
        *((name, c_void_p) for name in ("merge_tokens", "merge_bounds", "merge_partials")),
        *((name, c_void_p) for name in ("sums", "maxima", "weights", "parallel", "barrier")),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "v")),
        *((name, c_int64) for name in ("q_stride", "k_stride", "v_stride")),
        *((name, c_void_p) for name in ("keys", "values", "out")),
    ]


class NativeAttention:
    """Builds the `AttentionStep` of each engine step."""

    def __init__(self, kv: KVTensors, threads: int | None = None, kernel: ctypes.CDLL | None = None) -> None:
        kernel, runtime = kernel or library(), openmp()
        if kernel is None or runtime is None:
            raise RuntimeError("the C kernels are not available")
        self.kv = kv
        self.kernel = kernel
        self.runtime = runtime
        self.threads = threads or torch.get_num_threads()
        self.partials = torch.empty(0)

    def step(self, plan: AttentionPlan) -> NativeAttentionStep:
        return NativeAttentionStep(self, plan)


class NativeAttentionStep:
    """One step's attention; everything but the tensors of a layer is laid out here."""

    def __init__(self, attention: NativeAttention, plan: AttentionPlan) -> None:
        config = attention.kv.config
        self.attention = attention
        self.kv = attention.kv
        self.attend = attention.kernel.sapwood_attend
        self.scale = ctypes.c_float(config.head_dim**-0.5)
        rows = np.concatenate([np.asarray(span.rows, dtype=np.int64) for span in plan.spans])
        tasks, merges = join(split(plan, config, attention.threads), rows, plan.tokens)
        self.arrays = {
            "tasks": tasks,
            "slots": expand_runs(plan.runs),
            "rows": rows,
            "runs": np.array([run for span in plan.spans for run in span.runs], dtype=np.int64),
            **merges,
        }
        self.plan = _Plan(
            tokens=plan.tokens,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            pool_slots=attention.kv.slots,
            bits=attention.kv.dtype.itemsize * 8,
            task_count=len(tasks),
            merge_count=len(merges["merge_tokens"]),
            threads=attention.threads,
            parallel=attention.runtime[0],
            barrier=attention.runtime[1],
            **{name: array.ctypes.data for name, array in self.arrays.items()},
            **_room(attention, len(merges["merge_partials"]) * config.heads, config.head_dim),
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `engine.attention.base.AttentionStep`."""
        out = q.new_empty(q.shape)
        self.attend(
            ctypes.byref(self.plan),
            ctypes.byref(
                _Layer(
                    q.data_ptr(),
                    k.data_ptr(),
                    v.data_ptr(),
                    q.stride(0),
                    k.stride(0),
                    v.stride(0),
                    self.kv.keys[layer].data_ptr(),
                    self.kv.values[layer].data_ptr(),
                    out.data_ptr(),
                )
            ),
            self.scale,
        )
        return out


def split(plan: AttentionPlan, config: ModelConfig, threads: int) -> list[Task]:
    """Every span in tiles of rows and ranges of KV, the most expensive first."""
    group = config.heads // config.kv_heads
    tile = max(1, TILE_LANES // group)
    tasks = []
    row = run = 0
    for span in plan.spans:
        for first in range(0, len(span.rows), tile):
            count = min(tile, len(span.rows) - first)
            end = span.length if span.causal is None else span.causal + first + count
            causal = -1 if span.causal is None else span.causal
            tasks.append(Task(row + first, count, run, len(span.runs), 0, end, causal, first))
        row += len(span.rows)
        run += len(span.runs)
    ideal = sum(task.cost for task in tasks) * config.kv_heads // (TASKS_PER_THREAD * threads) if threads > 1 else 0
    parts = [part for task in tasks for part in _parts(task, ideal)]
    parts.sort(key=lambda task: -task.cost)
    return parts


def _parts(task: Task, ideal: int) -> list[Task]:
    """`task` in equal ranges of KV of about the `ideal` cost; 0: in one."""
    length = task.end - task.begin
    wanted = min(-(-task.cost // ideal), length // SHORTEST) if ideal else 1
    if wanted <= 1:
        return [task]
    step = -(-length // wanted // BLOCK) * BLOCK
    ranges = range(task.begin, task.end, step)
    return [task._replace(begin=begin, end=min(begin + step, task.end)) for begin in ranges]


def join(tasks: list[Task], rows: Ints, tokens: int) -> tuple[Ints, dict[str, Ints]]:
    """The tasks as an array, with the partial results of those that share a token with another numbered, and listed
    for each token.

    A task is final (partial -1) when all its tokens are in no other task.
    """
    table = np.array(tasks, dtype=np.int64)
    counts = table[:, Task._fields.index("row_count")]
    starts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(starts, counts)
    owners = rows[np.repeat(table[:, Task._fields.index("rows")], counts) + within]
    shared = np.bincount(owners, minlength=tokens)[owners] > 1
    partial = np.logical_or.reduceat(shared, starts)
    left = np.where(partial, counts, 0)
    table[:, Task._fields.index("partial")] = np.where(partial, np.cumsum(left) - left, -1)
    token_of = owners[np.repeat(partial, counts)]
    order = np.argsort(token_of, kind="stable")
    per_token = np.bincount(token_of, minlength=tokens)
    merged = np.flatnonzero(per_token)
    bounds = np.concatenate([[0], np.cumsum(per_token[merged])]).astype(np.int64)
    return table, {"merge_tokens": merged, "merge_bounds": bounds, "merge_partials": order}


def _room(attention: NativeAttention, rows: int, head_dim: int) -> dict[str, int]:
    """Where the partial results of a layer go: one buffer for all steps, which grows."""
    needed = rows * (head_dim + 2)
    if len(attention.partials) < needed:
        attention.partials = torch.empty(2 * needed)
    base = attention.partials.data_ptr()
    return {"sums": base, "maxima": base + 4 * rows * head_dim, "weights": base + 4 * rows * (head_dim + 1)}
