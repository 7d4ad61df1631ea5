"""A request's seat at a replica: its share of the load, its trial at the breaker, and those who wait behind it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.placement.base import Choice, Observation, Placement
from gateway.placement.breaker import Trial
from gateway.placement.load import Flight
from gateway.placement.replica import Replica

SERVER_ERROR = 500
NOT_IMPLEMENTED = 501
"""The one server error that tells of the request, not of the server."""


class Seat:
    """Whoever has it closes it, on every way out; only the first time counts."""

    def __init__(
        self,
        replica: Replica,
        choice: Choice,
        placement: Placement,
        flight: Flight,
        trial: Trial,
        clock: Callable[[], float],
        freed: Callable[[], None],
    ) -> None:
        """`freed` is called once, when the replica has room again."""
        self.replica = replica
        self.choice = choice
        self.rate = placement.rate(replica.url, replica.epoch)
        """Prefill tokens per second that the choice counted on."""
        self._epoch = replica.epoch
        self._placement = placement
        self._prefill_s: float | None = None
        self._flight = flight
        self._trial = trial
        self._clock = clock
        self._freed: Callable[[], None] | None = freed

    def answered(self, status: int) -> None:
        """The first byte is there. A server error is the replica's failure, however well it is told."""
        self._prefill_s = self._flight.first_byte(self._clock())
        if status >= SERVER_ERROR and status != NOT_IMPLEMENTED:
            self._trial.end(self._clock(), failed=True)
        else:
            self._trial.answers()

    def broke(self) -> None:
        """The replica took the request and gave no whole answer, or none in time."""
        self._trial.end(self._clock(), failed=True)

    def finished(self) -> None:
        """The answer is whole."""
        self._trial.end(self._clock(), failed=False)

    def counted(self, epoch: str, estimated: int, prompt_tokens: int, cached_tokens: int | None) -> None:
        """What the replica says of the prompt. Nothing is learned of one that has started anew since the choice."""
        if epoch == self._epoch:
            seen = Observation(self.choice, epoch, estimated, prompt_tokens, cached_tokens, self._prefill_s)
            self._placement.learn(seen)

    def close(self) -> None:
        """Without another word before, the request tells nothing about its replica."""
        freed, self._freed = self._freed, None
        if freed is None:
            return
        self._trial.end(self._clock(), failed=None)
        self._flight.close(self._clock())
        freed()
