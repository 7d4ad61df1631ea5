"""How far a replica's bindings are believed: what it really had cached, over what its bindings promised.

Caches forget by age, so trust is kept by the age of a binding, in steps of a factor of two. What a replica does not
have after a minute it is not believed to have after an hour.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.placement.holdings import Holding

GAIN = 0.15
"""Weight of the newest observation."""
STEPS = 16
"""The last is of everything older than half a day."""
MIN_TOKENS = 64
"""Smaller promises tell little: engines cache by pages."""
MAX_REPLICAS = 1024


class Trust:
    """By replica and epoch; of those that were not heard of for longest it forgets."""

    def __init__(self) -> None:
        self._shares: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shares)

    def share(self, url: str, epoch: str, age_s: float) -> float:
        """Between 0 and 1: the part of a binding's tokens that the replica is expected to hold still."""
        shares = self._shares.get((url, epoch))
        return min(shares[: _step(age_s) + 1]) if shares else 1.0

    def tokens(self, url: str, epoch: str, held: Holding) -> int:
        """Of a holding, what is expected to be there still."""
        return round(held.tokens * self.share(url, epoch, held.age_s))

    def learn(self, url: str, epoch: str, age_s: float, promised: int, cached: int) -> None:
        if promised < MIN_TOKENS:
            return
        shares = self._shares.setdefault((url, epoch), [1.0] * STEPS)
        self._shares.move_to_end((url, epoch))
        step = _step(age_s)
        kept = min(max(cached / promised, 0.0), 1.0)
        shares[step] += GAIN * (kept - shares[step])
        while len(self._shares) > MAX_REPLICAS:
            self._shares.popitem(last=False)


def _step(age_s: float) -> int:
    """0 for less than a second, then one more for each doubling."""
    return int(min(max(age_s, 0.0), 2.0**STEPS)).bit_length() if age_s < 2 ** (STEPS - 1) else STEPS - 1
