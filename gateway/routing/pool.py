"""A pool at work: its replicas, the policy that chooses among them, and those who wait until one has room."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gateway.affinity.base import Match
from gateway.config_pools import PoolConfig
from gateway.placement.base import Placement, ReplicaView, RequestView
from gateway.placement.line import Line
from gateway.placement.load import Flight
from gateway.placement.replica import Replica, Want, candidates
from gateway.placement.seat import Seat


class ReplicaPool:
    def __init__(
        self, config: PoolConfig, placement: Placement, queue_length: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.placement = placement
        self.members: dict[str, Replica] = {}
        """By URL."""
        self.line: Line[Want, Seat] = Line(config.name, queue_length, self._has_room)
        self._clock = clock

    def candidates(self, want: Want) -> list[Replica]:
        return candidates(self.members.values(), want, self._clock())

    def admits(self, want: Want) -> bool:
        """Whether a replica may take the request that is not suspected of failing."""
        now = self._clock()
        return any(replica.breaker.admits(now) for replica in self.candidates(want))

    def take(self, want: Want, request: RequestView, matches: Sequence[Match], now_ms: int) -> Seat | None:
        """A seat at the replica that the policy chooses of those with room. None if none may take the request."""
        now = self._clock()
        free = [replica for replica in self.candidates(want) if replica.has_room()]
        if not free:
            return None
        choice = self.placement.choose(request, [view_of(replica, now) for replica in free], matches, now_ms)
        replica = self.members[choice.url]
        flight = Flight(replica.load, choice.uncached_tokens, now)
        trial = replica.breaker.begin(now)
        return Seat(replica, choice, self.placement, flight, trial, self._clock, self.line.move)

    def _has_room(self, want: Want) -> bool:
        """Also where nobody is left to wait for: whoever comes finds that out."""
        there = self.candidates(want)
        return not there or any(replica.has_room() for replica in there)


def view_of(replica: Replica, now: float) -> ReplicaView:
    load = replica.load
    return ReplicaView(
        url=replica.url,
        epoch=replica.epoch,
        in_flight=load.in_flight,
        waiting_tokens=load.work.tokens,
        recent_tokens=load.recent.value(now),
        head_tokens=load.work.head_tokens,
        head_s=load.work.head_s(now),
    )
