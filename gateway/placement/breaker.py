"""A circuit breaker: a replica that keeps failing gets no requests for a while, then one, and all if that went well.

Probes ask whether a server is there; this counts what became of requests. Pure: callers bring the time.

    CLOSED ──too many failures──> OPEN ──after `open_s`, by one request──> HALF_OPEN ──it went well──> CLOSED
                                   ^──────────────────it failed───────────────┘
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

REMEMBERED = 256


class BreakerSettings(BaseModel):
    """The `[breaker]` of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failures: int = Field(default=5, ge=0)
    """So many in a row open it; 0 never does."""
    share: float = Field(default=0.5, gt=0, le=1)
    """So large a part of the window's requests opens it, if they are at least `share_of`."""
    share_of: int = Field(default=20, gt=0, le=REMEMBERED)
    window_s: float = Field(default=30.0, gt=0)
    """What is older counts no more."""
    open_s: float = Field(default=5.0, gt=0)


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self.settings = settings or BreakerSettings()
        self.state = BreakerState.CLOSED
        self._opened_at = 0.0
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=REMEMBERED)
        self._in_a_row = 0
        self._trial: Trial | None = None

    def admits(self, now: float) -> bool:
        """Whether a request may be sent now: while half open only one at a time."""
        if self.state is BreakerState.OPEN:
            return now - self._opened_at >= self.settings.open_s
        return self.state is BreakerState.CLOSED or self._trial is None

    def begin(self, now: float) -> Trial:
        """A request goes out, be it that there is no better replica. Its trial must be ended."""
        trial = Trial(self)
        if self.admits(now) and self.state is not BreakerState.CLOSED:
            self.state = BreakerState.HALF_OPEN
            self._trial = trial
        return trial

    def answers(self, trial: Trial) -> None:
        """Only for `Trial`. An answer has begun: a replica that was half open is not kept so until the answer's end."""
        if trial is self._trial:
            self._trial = None
            self._close()

    def ended(self, trial: Trial, now: float, failed: bool | None) -> None:
        """Only for `Trial`."""
        deciding = trial is self._trial
        if deciding:
            self._trial = None
        if failed is None:
            return
        if self.state is not BreakerState.CLOSED and not deciding:
            return  # it went out before the breaker opened, or for want of a better one
        if failed:
            self._count_failure(now, deciding)
        elif deciding:
            self._close()
        else:
            self._in_a_row = 0
            self._outcomes.append((now, False))

    def _count_failure(self, now: float, deciding: bool) -> None:
        last = self._outcomes[-1][0] if self._outcomes else now
        self._in_a_row = self._in_a_row + 1 if now - last <= self.settings.window_s else 1
        self._outcomes.append((now, True))
        if deciding or self._too_many(now):
            self.state = BreakerState.OPEN
            self._opened_at = now

    def _too_many(self, now: float) -> bool:
        settings = self.settings
        if not settings.failures:
            return False
        recent = [failed for at, failed in self._outcomes if now - at <= settings.window_s]
        much = len(recent) >= settings.share_of and sum(recent) >= settings.share * len(recent)
        return much or self._in_a_row >= settings.failures

    def _close(self) -> None:
        self.state = BreakerState.CLOSED
        self._in_a_row = 0
        self._outcomes.clear()


class Trial:
    """One request's say on its replica; what is said first counts."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker: Breaker | None = breaker

    def answers(self) -> None:
        if self._breaker is not None:
            self._breaker.answers(self)

    def end(self, now: float, failed: bool | None) -> None:
        """None: it tells nothing, as of a client that left."""
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker.ended(self, now, failed)
