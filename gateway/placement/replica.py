"""A replica as the gateway sees it: an upstream server with its health, epoch, models and load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any

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


@dataclass(slots=True)
class Replica:
    url: str
    state: ReplicaState = ReplicaState.UNKNOWN
    epoch: str = ""
    """Boot id of the engine behind `url`, or a stand-in. Empty until the first probe."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Entries of its model list by id; empty when not known."""
    offers: frozenset[str] = frozenset()
    """What it can do beyond OpenAI's interface."""
    load: Load = field(default_factory=Load)
    detail: str = "not probed yet"
    was_gone: bool = False
    """It was `GONE` since its stand-in epoch was given."""

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

    def serves(self, model: str) -> bool:
        """Whether it may serve the model; one whose list is not known may."""
        return not self.models or model in self.models


def candidates(replicas: list[Replica], model: str, tried: set[str]) -> list[Replica]:
    """Where a request may go: healthy replicas with its model, else any healthy one, else one not probed yet.

    A model that nobody lists still goes to a replica, whose own answer is better than a guess here.
    """
    left = [replica for replica in replicas if replica.url not in tried]
    healthy = [replica for replica in left if replica.state is ReplicaState.HEALTHY]
    if any(replica.serves(model) for replica in replicas if replica.state is ReplicaState.HEALTHY):
        return [replica for replica in healthy if replica.serves(model)]
    return healthy or [replica for replica in left if replica.state is ReplicaState.UNKNOWN]
