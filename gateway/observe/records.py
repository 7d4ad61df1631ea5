"""One record for each request: what was expected of the cache, what came of it, and why it went where it went.

A record begins with its request and is completed at its end, so that one under way can be looked at too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gateway.canonical.explain import PrefixBreak, Turn
from gateway.observe.gap import Gap

CAPACITY = 2000


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a replica would have cost by the placement's reckoning."""

    replica: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the request went, known when its answer begins."""

    replica: str
    reason: str
    predicted_tokens: int
    """How much of the prompt the replica was expected to hold."""
    prefill_tokens_per_s: float
    attempts: int = 1
    alternatives: tuple[Alternative, ...] = ()
    queued_s: float = 0.0
    """How long it waited for a replica with room."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. None is "the upstream did not say", or "it did not come to that"."""

    status: int
    """What the client got; 499 if it left before."""
    total_ms: float
    error: str | None = None
    """A code: the gateway's own, or `client_gone`."""
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    """Of a stream: the time for each token after the first, on average."""
    finish: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(slots=True)
class RequestRecord:
    """Texts are cut to a bounded length by whoever fills them in."""

    id: str
    time: float
    """Seconds since 1970."""
    route: str
    tenant: str = ""
    """Empty until the request has been let in and read."""
    session: str | None = None
    """The client's own session, scoped and hidden; None if it names none."""
    lineage: str = ""
    model: str = ""
    prompt_estimate: int = 0
    """Tokens of the prompt by its bytes."""
    turn: Turn | None = None
    """None until an answer began."""
    broken: PrefixBreak | None = None
    lost_tokens: int = 0
    placed: Placed | None = None
    gap: Gap | None = None
    outcome: Outcome | None = None

    @property
    def lost_ms(self) -> float | None:
        """Estimated: what computing the lost tokens again takes at the replica's prefill rate."""
        if self.broken is None or self.placed is None or self.placed.prefill_tokens_per_s <= 0:
            return None
        return 1000 * self.lost_tokens / self.placed.prefill_tokens_per_s


class Records:
    """The newest records. A tenant's name is part of every look-up: no call finds another's."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._by_id: dict[str, RequestRecord] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, record: RequestRecord) -> None:
        self._by_id[record.id] = record
        if len(self._by_id) > self._capacity:
            del self._by_id[next(iter(self._by_id))]

    def get(self, tenant: str, request_id: str) -> RequestRecord | None:
        record = self._by_id.get(request_id)
        return record if record and record.tenant == tenant else None

    def newest(self, tenant: str, limit: int, *, broken: bool = False) -> list[RequestRecord]:
        """Newest first; with `broken` only those whose prefix broke."""
        return list(islice((record for record in self._of(tenant) if record.broken or not broken), limit))

    def lineage(self, tenant: str, lineage: str) -> list[RequestRecord]:
        """Newest first; empty for one that is not known."""
        return [record for record in self._of(tenant) if record.lineage == lineage]

    def lineages(self, tenant: str, limit: int) -> list[list[RequestRecord]]:
        """The records of each session, the session that was last active first."""
        found: dict[str, list[RequestRecord]] = {}
        for record in self._of(tenant):
            found.setdefault(record.lineage, []).append(record)
        return list(islice(found.values(), limit))

    def _of(self, tenant: str) -> Iterator[RequestRecord]:
        return (record for record in reversed(self._by_id.values()) if record.tenant == tenant)
