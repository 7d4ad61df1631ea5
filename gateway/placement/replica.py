"""A replica as the gateway sees it: an upstream server with its health, epoch, models, load and duty."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from gateway.config_pools import UpstreamKind
from gateway.placement.breaker import Breaker
from gateway.placement.load import Load

_PLAIN_EPOCH = re.compile(r"[\x21-\x7e]{1,128}")


class ReplicaState(StrEnum):
    UNKNOWN = "unknown"
    """Not probed yet."""
    HEALTHY = "healthy"
    DOWN = "down"


class DownCause(StrEnum):
    GONE = "gone"
    """Refused or cut connections: the process may be another one when it is back."""
    SILENT = "silent"
    """It did not answer in time; it may only be busy."""
    UNWELL = "unwell"
    """It answers, and says that it is not ready."""


class Duty(StrEnum):
    """What the operator wants of it."""

    SERVING = "serving"
    DRAINING = "draining"
    """No new conversations; those that are at home here may stay until the drain's grace is over."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the configuration says of it."""

    kind: UpstreamKind = UpstreamKind.OPENAI
    credential: str | None = field(default=None, repr=False)
    """The upstream's own API key, in the place of the client's."""
    max_in_flight: int = 0
    """0 is without limit."""


@dataclass(slots=True)
class Replica:
    url: str
    terms: Terms = Terms()
    state: ReplicaState = ReplicaState.UNKNOWN
    epoch: str = ""
    """Boot id of the engine behind `url`, or a stand-in. Empty until the first probe."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Entries of its model list by id; empty when not known."""
    offers: frozenset[str] = frozenset()
    """What it can do beyond OpenAI's interface."""
    load: Load = field(default_factory=Load)
    breaker: Breaker = field(default_factory=Breaker)
    duty: Duty = Duty.SERVING
    detail: str = "not probed yet"
    was_gone: bool = False
    """It was `GONE` since its stand-in epoch was given."""
    _stay_until: float = math.inf

    def went_up(self, epoch: str) -> None:
        self.state = ReplicaState.HEALTHY
        self.detail = "healthy"
        self.was_gone = False
        self.learn_epoch(epoch)

    def went_down(self, cause: DownCause, detail: str) -> None:
        self.state = ReplicaState.DOWN
        self.detail = detail
        self.was_gone = self.was_gone or cause is DownCause.GONE

    def learn_epoch(self, announced: str) -> None:
        """From a probe or a response header. Bindings hold it, so it is kept short and without spaces."""
        plain = _PLAIN_EPOCH.fullmatch(announced) is not None
        self.epoch = announced if plain else blake2b(announced.encode(), digest_size=16).hexdigest()

    def drain(self, stay_until: float) -> None:
        """Until that time, by the monotonic clock, conversations at home here may go on."""
        self.duty = Duty.DRAINING
        self._stay_until = stay_until

    def undrain(self) -> None:
        self.duty = Duty.SERVING

    def serves(self, model: str) -> bool:
        """Whether it may serve the model; one whose list is not known may."""
        return not self.models or model in self.models

    def takes(self, home: str | None, now: float) -> bool:
        """Whether its duty lets it take a request of a conversation at home at `home`, or of a new one."""
        return self.duty is Duty.SERVING or (home == self.url and now < self._stay_until)

    def has_room(self) -> bool:
        return not self.terms.max_in_flight or self.load.in_flight < self.terms.max_in_flight


@dataclass(frozen=True, slots=True)
class Want:
    """What decides who may take a request. Requests that want the same wait in the queue for the same replicas."""

    model: str
    home: str | None = None
    """The replica that holds this conversation's own prefix."""
    given_up: frozenset[str] = frozenset()
    """Replicas that were tried in vain."""


def candidates(replicas: Iterable[Replica], want: Want, now: float) -> list[Replica]:
    """Where a request may go: healthy replicas with its model, else any healthy one, else one not probed yet.

    A model that nobody lists still goes to a replica, whose own answer is better than a guess here. A breaker only
    chooses between replicas: where all are open, a request goes to one of them all the same.
    """
    known = list(replicas)
    healthy = [replica for replica in known if replica.state is ReplicaState.HEALTHY]
    listed = [replica for replica in healthy if replica.serves(want.model)]

    def open_to(some: list[Replica]) -> list[Replica]:
        left = [replica for replica in some if replica.url not in want.given_up and replica.takes(want.home, now)]
        return [replica for replica in left if replica.breaker.admits(now)] or left

    if listed:
        return open_to(listed)
    return open_to(healthy) or open_to([replica for replica in known if replica.state is ReplicaState.UNKNOWN])
