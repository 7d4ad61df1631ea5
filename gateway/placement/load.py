"""What a replica has to do, as far as this gateway knows: exact counters with one way in and one way out."""

from __future__ import annotations

import math

from gateway.placement.work import Work

HALF_LIFE_S = 10.0


class DecayedSum:
    """A sum that halves every ten seconds: recent work, so that an idle moment does not look like a free choice."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at = 0.0

    def add(self, amount: float, now: float) -> None:
        self._sum = self.value(now) + amount
        self._at = now

    def value(self, now: float) -> float:
        return self._sum * math.exp2(-max(0.0, now - self._at) / HALF_LIFE_S)


class Load:
    """Requests under way at one replica. Only a `Flight` changes the counters."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.work = Work()
        self.recent = DecayedSum()


class Flight:
    """One request at one replica. `close` may be called on every exit path; it counts once.

    `uncached` tokens wait for prefill until the first byte is back, and are recent work from the start.
    """

    def __init__(self, load: Load, uncached: int, now: float) -> None:
        self._load = load
        self._open = True
        load.in_flight += 1
        load.work.begin(self, uncached, now)
        load.recent.add(uncached, now)

    def first_byte(self, now: float) -> float | None:
        """How long the replica had this prompt in work; None if its first byte was there before."""
        return self._load.work.end(self, now)

    def close(self, now: float) -> None:
        if not self._open:
            return
        self._open = False
        self.first_byte(now)
        self._load.in_flight -= 1
