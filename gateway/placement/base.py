"""The vocabulary of placement: what a policy sees of a request and of replicas, what it says, what it learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gateway.affinity.base import Match


@dataclass(frozen=True, slots=True)
class RequestView:
    prefix: str
    """Id of the shared head; what cold siblings have in common."""
    tokens: int
    """Prompt length, estimated from its bytes."""
    head_tokens: int = 0
    """Of it the shared head (tools and system messages)."""
    alike: str = ""
    """Gateways that can't share bindings now place it by this alone, and so alike. Empty while they can."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    url: str
    epoch: str
    in_flight: int
    waiting_tokens: int
    """Sent there and, as far as is known, not computed yet: no first byte is back."""
    recent_tokens: float
    """Decayed sum of what was sent there."""
    head_tokens: int = 0
    """Of the waiting tokens those of the oldest request, which is taken to be in work."""
    head_s: float = 0.0
    """For how long it has been in work."""


class Reason(StrEnum):
    BINDING = "binding"
    HEAD = "head"
    SESSION = "session"
    RENDEZVOUS = "rendezvous"
    SECONDS = "seconds"
    LEAST_LOADED = "least_loaded"
    ROUND_ROBIN = "round_robin"


@dataclass(frozen=True, slots=True)
class Choice:
    url: str
    reason: Reason
    cached_tokens: int
    """How much of the prompt the chosen replica is expected to hold."""
    uncached_tokens: int
    """How much it is expected to compute."""
    bound_tokens: int = 0
    """How much it would hold if nothing had been evicted since."""
    age_s: float = 0.0
    """Since when: that is how old the binding is."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What each replica would have cost, by URL. Empty if the policy does not reckon."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What became of a request, known at its end."""

    choice: Choice
    epoch: str
    """The replica's, when the answer began."""
    estimated_tokens: int
    """The prompt's length as it was estimated."""
    prompt_tokens: int
    """The engine's count."""
    cached_tokens: int | None
    """None if the engine does not say."""
    prefill_s: float | None
    """How long the replica had this prompt in work; None if that is not known."""


class Placement(Protocol):
    """One pool's policy."""

    def choose(
        self, request: RequestView, replicas: Sequence[ReplicaView], matches: Sequence[Match], now_ms: int
    ) -> Choice:
        """One of `replicas`, which are never empty. `matches` are strongest first; those of other replicas or of
        epochs that are over count for nothing. `now_ms` is of the clock that stamps bindings."""
        ...

    def learn(self, seen: Observation) -> None: ...

    def rate(self, url: str, epoch: str) -> float:
        """Prefill tokens per second that the policy counts on, or would."""
        ...
