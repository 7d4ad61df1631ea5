"""How many requests may be under way at once, in all and for each key."""

from __future__ import annotations

from collections import Counter

from gateway.errors import GatewayError
from gateway.guard.door import Caller

RETRY_AFTER_S = 1


class Streams:
    """What is let in counts from before its body is read until its answer has ended."""

    def __init__(self, limit: int, limit_per_key: int | None) -> None:
        self._limit = limit
        self._limit_per_key = limit_per_key
        self._of: Counter[str] = Counter()
        self.open = 0

    def enter(self, caller: Caller) -> Place:
        """GatewayError 503 if the gateway is full, 429 if the caller has as many as it may."""
        owner = caller.key.hashed if caller.key else caller.tenant.scope
        if self.open >= self._limit:
            message = f"This gateway serves {self._limit} requests at once, and no more now. Try again shortly."
            raise GatewayError(message, code="too_many_streams", status=503, retry_after_s=RETRY_AFTER_S)
        if self._limit_per_key is not None and self._of[owner] >= self._limit_per_key:
            message = f"This key may have {self._limit_per_key} requests under way at once. Try again after one's end."
            raise GatewayError(message, code="too_many_streams", status=429, retry_after_s=RETRY_AFTER_S)
        self._of[owner] += 1
        self.open += 1
        return Place(self, owner)

    def leave(self, owner: str) -> None:
        self.open -= 1
        self._of[owner] -= 1
        if not self._of[owner]:
            del self._of[owner]


class Place:
    """Whoever has it frees it, on every way out; only the first time counts."""

    def __init__(self, streams: Streams, owner: str) -> None:
        self._streams: Streams | None = streams
        self._owner = owner

    def free(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.leave(self._owner)
