"""Runs of KV slots: (first slot, number of slots), many of them one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Run = tuple[int, int]


def expand_runs(runs: Sequence[Run]) -> NDArray[np.int64]:
    """Every slot, in order: int64 [slots]."""
    return np.concatenate([np.arange(start, start + length) for start, length in runs] or [np.zeros(0, np.int64)])


def cut_runs(runs: Sequence[Run], count: int) -> list[Run]:
    """The first `count` slots."""
    taken = []
    for start, length in runs:
        if count > 0:
            taken.append((start, min(length, count)))
        count -= length
    return taken


def total(runs: Sequence[Run]) -> int:
    return sum(length for _, length in runs)
