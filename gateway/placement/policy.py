"""Placement: which replica takes a request. Pure, over a snapshot of the replicas.

The default counts seconds: the time until a replica has worked off what waits there and computed what it does
not hold of this prompt. A conversation goes back to its home; where only the shared head (tools and system
messages) or only the session is known, the home wins unless another replica would be done sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.affinity.base import Found, Level, LookupResult, Match
from gateway.placement.rendezvous import rank

IN_FLIGHT_S = 0.02
"""What each running request adds to a step of its replica, roughly one decode step."""
RECENT_STEP = 256
"""Recent work counts in steps of this many tokens, so that remains of it decide nothing."""


@dataclass(frozen=True, slots=True)
class RequestView:
    prefix: str
    """Id of the shared head; what cold siblings have in common."""
    tokens: int
    """Prompt length, estimated from its bytes."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    url: str
    epoch: str
    in_flight: int
    waiting_tokens: int
    recent_tokens: float


class Reason(StrEnum):
    BINDING = "binding"
    HEAD = "head"
    SESSION = "session"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Choice:
    url: str
    reason: Reason
    cached_tokens: int
    """How much of the prompt the chosen replica is expected to hold."""


class Placement(Protocol):
    def choose(self, request: RequestView, replicas: Sequence[ReplicaView], match: Match | None) -> Choice:
        """One of `replicas`, which are never empty. `match` is of a current epoch."""
        ...


@dataclass(frozen=True, slots=True)
class SecondsPlacement:
    prefill_tokens_per_s: float

    def choose(self, request: RequestView, replicas: Sequence[ReplicaView], match: Match | None) -> Choice:
        home = match.binding.replica if match else None
        if match and match.level is Level.PREFIX and any(replica.url == home for replica in replicas):
            return Choice(match.binding.replica, Reason.BINDING, held_tokens(request, match))
        best = min(replicas, key=lambda replica: self._order(request, replica, match))
        if match and best.url == home:
            return Choice(best.url, Reason(match.level.value), held_tokens(request, match))
        return Choice(best.url, Reason.SECONDS, 0)

    def _order(self, request: RequestView, replica: ReplicaView, match: Match | None) -> tuple[float, bool, int, int]:
        """Seconds; at equal seconds the home, then least recent work, then the prefix's own ranking."""
        at_home = match is not None and match.binding.replica == replica.url
        held = held_tokens(request, match) if match and at_home else 0
        tokens = replica.waiting_tokens + request.tokens - held
        seconds = tokens / self.prefill_tokens_per_s + replica.in_flight * IN_FLIGHT_S
        recent = int(replica.recent_tokens) // RECENT_STEP
        return (seconds, not at_home, recent, -rank(request.prefix, replica.url))


def held_tokens(request: RequestView, match: Match) -> int:
    """Tokens of the prompt that the match's replica holds; of a changed history nobody knows how many."""
    return 0 if match.level is Level.SESSION else min(match.binding.tokens, request.tokens)


def resolve(found: Found, replicas: Sequence[ReplicaView]) -> tuple[Match | None, LookupResult]:
    """The strongest binding whose replica is a candidate and still runs under the binding's epoch."""
    epochs = {replica.url: replica.epoch for replica in replicas}
    current = [match for match in found.matches if epochs.get(match.binding.replica) == match.binding.epoch]
    if current:
        return current[0], LookupResult.HIT if found.shared else LookupResult.FALLBACK
    if not found.shared:
        return None, LookupResult.FALLBACK
    stale = any(match.binding.replica in epochs for match in found.matches)
    return None, LookupResult.STALE_EPOCH if stale else LookupResult.MISS
