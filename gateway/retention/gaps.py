"""How long tools take, learned from the time between a reply that calls them and the conversation's next turn."""

from __future__ import annotations

import math
from collections import OrderedDict

LEAST_S = 0.1
MOST_S = 3600.0
STEP = 1.25
"""Durations are counted in classes, each so many times as long as the one before."""
FORGET = 0.98
"""What earlier durations count for with each new one: some fifty of them shape the estimate."""
CLASSES = math.ceil(math.log(MOST_S / LEAST_S, STEP)) + 1


class Durations:
    """A decaying histogram of durations on a logarithmic scale."""

    def __init__(self) -> None:
        self._weights = [0.0] * CLASSES
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._weights = [weight * FORGET for weight in self._weights]
        self._weights[_class_of(seconds)] += 1.0
        self._total = self._total * FORGET + 1.0

    def quantile(self, part: float) -> float:
        """A duration that `part` of those added don't exceed; of none added, the shortest."""
        left = part * self._total
        for index, weight in enumerate(self._weights):
            left -= weight
            if left <= 1e-9:
                return min(MOST_S, LEAST_S * STEP**index)
        return MOST_S


class Gaps:
    """By a key (a tenant's tool); the keys used longest ago are forgotten beyond `limit`."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._known: OrderedDict[str, Durations] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, seconds: float) -> None:
        self._known.setdefault(key, Durations()).add(seconds)
        self._known.move_to_end(key)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def quantile(self, key: str, part: float) -> float | None:
        """None for a key that nothing is known of."""
        known = self._known.get(key)
        return known.quantile(part) if known else None


def _class_of(seconds: float) -> int:
    """The class whose upper end is the first not below `seconds`."""
    if not seconds > LEAST_S:
        return 0
    return math.ceil(math.log(min(seconds, MOST_S) / LEAST_S, STEP) - 1e-9)
