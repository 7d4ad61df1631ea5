"""The policy `round-robin`: each replica in turn. One that comes back does not get what it missed."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.affinity.base import Match
from gateway.placement.base import Choice, Reason, ReplicaView, RequestView
from gateway.placement.learned import Learned


class RoundRobinPlacement(Learned):
    def __init__(self, prefill_tokens_per_s: float) -> None:
        super().__init__(prefill_tokens_per_s)
        self._last = ""

    def choose(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Choice:
        after = [replica for replica in replicas if replica.url > self._last]
        chosen = min(after or replicas, key=lambda replica: replica.url)
        self._last = chosen.url
        return self.known(request, replicas, matches, now_ms).choice(chosen, Reason.ROUND_ROBIN)
