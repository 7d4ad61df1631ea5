"""Who comes in next: pure functions over the waiting requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.schedule.request import Request

AGEING = 64
"""Each step of waiting counts like this many cached tokens, so that nobody waits for ever."""

SIBLING_TOKENS = 32
"""Waiting a step for a sibling pays when at least this many tokens need not be computed twice."""


def admission_score(cached: int, waited: int) -> int:
    """Longest cached prefix first, with ageing: the highest score is admitted first."""
    return cached + AGEING * waited


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix, by galloping over slices and a binary search at the end."""
    low, high = 0, min(len(a), len(b))
    step = 64
    while low < high:
        upper = min(low + step, high)
        if a[low:upper] == b[low:upper]:
            low, step = upper, step * 2
        elif upper - low == 1:
            return low
        else:
            high, step = upper, max((upper - low) // 2, 1)
    return low


def waits_for_sibling(request: Request, cached: int, running: Iterable[Request]) -> bool:
    """Whether a running request is about to compute a prefix that this one would otherwise compute again."""
    return any(
        other.prefilling
        and other.namespace == request.namespace
        and min(common_prefix(request.known, other.known), len(request.known) - 1) - cached >= SIBLING_TOKENS
        for other in running
    )
