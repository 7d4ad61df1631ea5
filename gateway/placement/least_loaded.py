"""The policy `least-loaded`: the replica that runs the fewest requests, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.affinity.base import Match
from gateway.placement.base import Choice, Reason, ReplicaView, RequestView
from gateway.placement.learned import Learned
from gateway.placement.rendezvous import rank


class LeastLoadedPlacement(Learned):
    def choose(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Choice:
        known = self.known(request, replicas, matches, now_ms)
        return known.choice(least_loaded(replicas, request.prefix), Reason.LEAST_LOADED)


def least_loaded(replicas: Sequence[ReplicaView], prefix: str) -> ReplicaView:
    """Of equals the one with the least to compute, then the least recent work, then the prefix's own."""
    return min(
        replicas,
        key=lambda one: (one.in_flight, one.waiting_tokens, int(one.recent_tokens), -rank(prefix, one.url)),
    )
