"""How many tokens are worth drafting, from how many were accepted so far.

A step with d drafted tokens costs 1 + row_cost · d plain steps and yields 1 + p + p² + … + p^d tokens when each
is accepted with probability p after the one before it. The d with the most tokens for the time is drafted; where
that is 0, drafting stops for a while.
"""

from __future__ import annotations

from enum import Enum

from engine.draft.config import DraftConfig

# How many tokens the starting rate weighs as much as: little, so that the first drafts decide.
PRIOR_WEIGHT = 2.0


class Phase(Enum):
    """DRAFTING → PAUSED when drafts stop paying; PAUSED → PROBING after a number of generated tokens;
    PROBING → DRAFTING when the probe had a token accepted, else → PAUSED for twice as long."""

    DRAFTING = "drafting"
    PAUSED = "paused"
    PROBING = "probing"


class Pace:
    """The pace of one kind of draft in one request. Positions count the request's known tokens."""

    def __init__(self, config: DraftConfig, rate: float) -> None:
        """`rate` is the acceptance that is assumed at first."""
        self._config = config
        self._prior = rate
        self.phase = Phase.DRAFTING
        self._judged, self._accepted = PRIOR_WEIGHT, PRIOR_WEIGHT * rate
        self._pause = self._resume = 0

    @property
    def rate(self) -> float:
        """The probability that a drafted token is accepted after an accepted one, by the last drafts."""
        return self._accepted / self._judged

    def length(self, position: int) -> int:
        """How many tokens to draft now."""
        if self.phase is Phase.PAUSED and position >= self._resume:
            self.phase = Phase.PROBING
        if self.phase is Phase.DRAFTING:
            return best_length(self.rate, self._config.row_cost, self._config.max_draft)
        return min(self._config.probe_tokens, self._config.max_draft) if self.phase is Phase.PROBING else 0

    def verified(self, drafted: int, accepted: int, position: int) -> None:
        """The outcome of one draft; tokens after the first rejected one say nothing."""
        if self.phase is Phase.PROBING:
            if not accepted:
                self._stop(position, min(2 * self._pause, self._config.max_pause_tokens))
                return
            self.phase = Phase.DRAFTING
            self._judged, self._accepted = PRIOR_WEIGHT, PRIOR_WEIGHT * self._prior
        self._judged = self._judged * self._config.decay + min(accepted + 1, drafted)
        self._accepted = self._accepted * self._config.decay + accepted
        if self.phase is Phase.DRAFTING and not self.length(position):
            self._stop(position, self._config.pause_tokens)

    def _stop(self, position: int, pause: int) -> None:
        self.phase = Phase.PAUSED
        self._pause = pause
        self._resume = position + pause


def best_length(rate: float, row_cost: float, limit: int) -> int:
    """The d of at most `limit` that yields the most tokens for the time.

    The gain of one more token falls while its cost stays, so the search ends where the first one doesn't pay.
    """
    tokens, time, gain = 1.0, 1.0, rate
    for length in range(limit):
        if gain * time <= tokens * row_cost:
            return length
        tokens, time, gain = tokens + gain, time + row_cost, gain * rate
    return limit
