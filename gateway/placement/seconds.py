"""The default policy: the replica that is done soonest, by seconds that are learned.

    seconds = what waits there ÷ rate  +  price × what it has to compute of this prompt ÷ rate  +  its running requests

The price of computing is more than its own time: it also delays whatever comes behind, the more so the more replicas
are busy. So a conversation's home is left only if that pays for computing its prefix again, and for what else stays
behind. Equals are decided by recent work, and then by the prefix: cold siblings of one moment meet.

While several gateways can't share bindings, a conversation's home is its rendezvous instead: what a gateway then knows
of it may be older than its newest turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.affinity.base import Level, Match
from gateway.placement.base import Choice, Reason, ReplicaView, RequestView
from gateway.placement.heads import Heads
from gateway.placement.learned import Known, Learned
from gateway.placement.rendezvous import meeting_place, rank

IN_FLIGHT_S = 0.02
"""What each running request adds: a step of its replica takes longer."""
BUSY_PRICE = 0.5
"""How much dearer computing is when all replicas are busy."""
MOVE_S = 0.05
"""What a move costs beyond computing the prefix again: the transcript and the retained path stay behind."""
EQUAL_SHARE, EQUAL_S = 0.1, 0.01
"""Costs that differ by less than this part, and these seconds, are equal: rates are learned, and lengths estimated."""
RECENT_STEP = 256
"""Recent work counts in steps of this many tokens, so that remains of it decide nothing."""
REASONS = {Level.PREFIX: Reason.BINDING, Level.HEAD: Reason.HEAD, Level.SESSION: Reason.SESSION}


@dataclass(frozen=True, slots=True)
class Offer:
    """What the request would cost at one replica."""

    replica: ReplicaView
    seconds: float
    queued_s: float
    """The part that is not for computing its own prompt."""


class SecondsPlacement(Learned):
    def __init__(self, prefill_tokens_per_s: float) -> None:
        super().__init__(prefill_tokens_per_s)
        self._heads = Heads()

    def choose(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Choice:
        known = self.known(request, replicas, [*matches, *self._heads.matches(request.prefix)], now_ms)
        price = 1 + BUSY_PRICE * sum(replica.waiting_tokens > 0 for replica in replicas) / len(replicas)
        offers = [self._offer(known, replica, price) for replica in replicas]
        agreed = _agreed(offers, request.alike)
        best = agreed or _best(offers, known, request.prefix)
        self._heads.sent(request.prefix, known.head_tokens, best.url, best.epoch, now_ms)
        reason = Reason.RENDEZVOUS if agreed else _reason(known, best.url)
        return known.choice(best, reason, {offer.replica.url: offer.seconds for offer in offers})

    def _offer(self, known: Known, replica: ReplicaView, price: float) -> Offer:
        rate = self.rate(replica.url, replica.epoch)
        computing = (known.tokens - known.cached.get(replica.url, 0)) / rate
        queued_s = waiting_s(replica, rate) + replica.in_flight * IN_FLIGHT_S
        return Offer(replica, queued_s + price * computing, queued_s)


def waiting_s(replica: ReplicaView, rate: float) -> float:
    """Until what waits at a replica is computed, less what has been done of the oldest."""
    head_tokens = min(replica.head_tokens, replica.waiting_tokens)
    return replica.waiting_tokens / rate - min(head_tokens / rate, replica.head_s)


def _agreed(offers: Sequence[Offer], alike: str) -> ReplicaView | None:
    """The rendezvous, if what waits there costs no more than computing all elsewhere."""
    if not alike:
        return None
    place = meeting_place(alike, [offer.replica for offer in offers])
    queued_s = next(offer.queued_s for offer in offers if offer.replica is place)
    return place if queued_s <= min(offer.seconds for offer in offers) + MOVE_S else None


def _best(offers: Sequence[Offer], known: Known, prefix: str) -> ReplicaView:
    """Of the cheapest and its equals the home, else the one with the least recent work, else the prefix's own."""
    limit = min(offer.seconds for offer in offers) * (1 + EQUAL_SHARE) + EQUAL_S
    home = next((offer for offer in offers if offer.replica.url == known.home), None)
    if home and home.seconds <= limit + (MOVE_S if known.cached[home.replica.url] else 0):
        return home.replica
    equals = [offer.replica for offer in offers if offer.seconds <= limit]
    return min(equals, key=lambda one: (int(one.recent_tokens) // RECENT_STEP, -rank(prefix, one.url)))


def _reason(known: Known, url: str) -> Reason:
    """Why this replica: for what it holds of the prompt, or for its load alone."""
    held = known.held.get(url)
    if held is None or (held.level is Level.SESSION and url != known.home):
        return Reason.SECONDS
    return REASONS[held.level]
