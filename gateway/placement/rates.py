"""Prefill rates, learned from requests that are over: tokens computed, over the time that was spent on them.

A replica's rate is the median of several estimates, each the ratio of sums over a few requests: sums, because engines
compute prompts side by side, so that single times mean little; a median, because some times mean nothing at all.
"""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict, deque

MIN_TOKENS = 256
"""Shorter prefills tell of everything but the rate."""
GROUP = 4
"""Requests in one estimate."""
GROUPS = 32
SLOWEST, FASTEST = 1.0, 1e7
"""Tokens per second; what lies beyond is a fault of measurement."""
MAX_REPLICAS = 1024


class Estimates:
    """One replica's."""

    def __init__(self) -> None:
        self._whole: deque[float] = deque(maxlen=GROUPS)
        self._tokens = 0
        self._seconds = 0.0
        self._count = 0

    def add(self, tokens: int, seconds: float) -> None:
        self._tokens += tokens
        self._seconds += seconds
        self._count += 1
        if self._count == GROUP:
            self._whole.append(self._ratio())
            self._tokens, self._seconds, self._count = 0, 0.0, 0

    def median(self, prior: float) -> float:
        """The prior counts as one estimate, so that a single bad one decides nothing."""
        begun = [self._ratio()] if self._count else []
        return _geometric_median([prior, *self._whole, *begun])

    def _ratio(self) -> float:
        return bounded(self._tokens / self._seconds if self._seconds > 0 else FASTEST)


class Rates:
    """By replica and epoch; of those that were not heard of for longest it forgets."""

    def __init__(self, guess: float) -> None:
        self._guess = bounded(guess)
        self._estimates: OrderedDict[tuple[str, str], Estimates] = OrderedDict()
        self._rates: dict[tuple[str, str], float] = {}

    def __len__(self) -> int:
        return len(self._estimates)

    def rate(self, url: str, epoch: str) -> float:
        """Until a replica's own is learned, that of its like."""
        return self._rates.get((url, epoch)) or self._of_its_like()

    def learn(self, url: str, epoch: str, tokens: int, seconds: float) -> None:
        if tokens < MIN_TOKENS or not 0 <= seconds < math.inf:
            return
        key = (url, epoch)
        prior = self._guess if key in self._rates else self._of_its_like()
        estimates = self._estimates.setdefault(key, Estimates())
        self._estimates.move_to_end(key)
        estimates.add(tokens, seconds)
        self._rates[key] = estimates.median(prior)
        while len(self._estimates) > MAX_REPLICAS:
            oldest, _ = self._estimates.popitem(last=False)
            del self._rates[oldest]

    def _of_its_like(self) -> float:
        return _geometric_median(list(self._rates.values())) if self._rates else self._guess


def bounded(rate: float) -> float:
    return min(max(rate, SLOWEST), FASTEST) if rate == rate else SLOWEST


def _geometric_median(values: list[float]) -> float:
    """Of an even number of values the geometric mean of the middle two: rates differ by factors."""
    return math.exp(statistics.median([math.log(value) for value in values]))
