"""What every policy learns from requests that are over, and what it therefore knows of the next one.

Also policies that do not reckon say how much of a prompt they expect to be cached, and how fast their replicas are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.affinity.base import Level, Match
from gateway.placement.base import Choice, Observation, Reason, ReplicaView, RequestView
from gateway.placement.holdings import Holding, current, holdings
from gateway.placement.rates import Rates
from gateway.placement.scale import Scale
from gateway.placement.trust import Trust

NOTHING = Holding(Level.HEAD, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Known:
    """One request's part of it."""

    tokens: int
    """The prompt's length, and of it the shared head's, in the engine's tokens."""
    head_tokens: int
    home: str | None
    """Where the conversation, or else its session, was last."""
    held: Mapping[str, Holding]
    cached: Mapping[str, int]
    """What is expected of each replica that has a binding, by URL."""

    def choice(self, replica: ReplicaView, reason: Reason, seconds: Mapping[str, float] | None = None) -> Choice:
        cached, held = self.cached.get(replica.url, 0), self.held.get(replica.url, NOTHING)
        return Choice(replica.url, reason, cached, self.tokens - cached, held.tokens, held.age_s, seconds or {})


class Learned:
    def __init__(self, prefill_tokens_per_s: float) -> None:
        """The rate is only where learning begins."""
        self._rates = Rates(prefill_tokens_per_s)
        self._trust = Trust()
        self._scale = Scale()

    def rate(self, url: str, epoch: str) -> float:
        return self._rates.rate(url, epoch)

    def known(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Known:
        there = current(matches, replicas)
        tokens = self._scale.tokens(request.tokens)
        home = next((match.binding.replica for match in there if match.level is not Level.HEAD), None)
        held = holdings(tokens, there, now_ms)
        cached = {
            replica.url: self._trust.tokens(replica.url, replica.epoch, held[replica.url])
            for replica in replicas
            if replica.url in held
        }
        return Known(tokens, self._scale.tokens(request.head_tokens), home, held, cached)

    def learn(self, seen: Observation) -> None:
        choice, cached = seen.choice, seen.cached_tokens
        self._scale.learn(seen.estimated_tokens, seen.prompt_tokens)
        if cached is not None:
            self._trust.learn(choice.url, seen.epoch, choice.age_s, choice.bound_tokens, cached)
        if seen.prefill_s is not None:
            computed = seen.prompt_tokens - (choice.cached_tokens if cached is None else cached)
            self._rates.learn(choice.url, seen.epoch, computed, seen.prefill_s)
