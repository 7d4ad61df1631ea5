"""The policy `session`: a conversation stays where it began, however busy that is; a new one goes where least runs."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.affinity.base import Level, Match
from gateway.placement.base import Choice, Reason, ReplicaView, RequestView
from gateway.placement.learned import Learned
from gateway.placement.least_loaded import least_loaded
from gateway.placement.rendezvous import meeting_place


class SessionPlacement(Learned):
    def choose(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Choice:
        known = self.known(request, replicas, matches, now_ms)
        if request.alike:
            return known.choice(meeting_place(request.alike, replicas), Reason.RENDEZVOUS)
        if known.home is None:
            return known.choice(least_loaded(replicas, request.prefix), Reason.LEAST_LOADED)
        home = next(replica for replica in replicas if replica.url == known.home)
        level = known.held[known.home].level
        return known.choice(home, Reason.BINDING if level is Level.PREFIX else Reason.SESSION)
