"""Asks a replica to keep a conversation's path from a reply that calls tools until the conversation goes on.

The time asked for is what nearly all earlier calls of that tool took, with some room. A retention is a bias of the
engine's eviction and ends by itself; the next turn takes its place, and a reply without calls ends it at once. Servers
that offer no retention are left alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import orjson

from gateway.retention.gaps import Gaps

log = logging.getLogger("sapwood.gateway")

PART = 0.9
ROOM = 1.5
UNKNOWN_S = 60.0
LEAST_S = 5.0
MOST_S = 900.0
MAX_WAITING = 65_536


class Outcome(StrEnum):
    RETAINED = "retained"
    RELEASED = "released"
    NOT_OFFERED = "not_offered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation at its home. `hint_s` is what its client says of the gap that follows."""

    tenant: str
    lineage: str
    url: str
    offers: frozenset[str]
    hint_s: float | None = None


Post = Callable[[str, bytes, str], Awaitable[int]]
"""Sends a JSON body to a URL for a tenant; the status of the answer. May raise OSError or TimeoutError."""


class Keeper:
    """One for each gateway. `now` is a monotonic time in seconds."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._gaps = Gaps()
        self._waiting: OrderedDict[tuple[str, str], tuple[Sequence[str], float]] = OrderedDict()
        """By tenant and lineage: the tools that a conversation waits for, and since when."""

    def turn_begins(self, tenant: str, lineage: str, now: float) -> None:
        """What the conversation waited for has come back. With several tools the gap says something of the slowest
        only, but nobody knows which that was: all of them learn it."""
        called, since = self._waiting.pop((tenant, lineage), ((), now))
        for tool in set(called):
            self._gaps.add(_key(tenant, tool), now - since)

    async def reply_ended(self, turn: Turn, called: Sequence[str], now: float) -> Outcome | None:
        """A reply is out that calls these tools. None where there is nothing to do."""
        place = (turn.tenant, turn.lineage)
        kept = self._waiting.pop(place, None) is not None
        if called:
            self._wait(place, called, now)
            return await self._ask(turn, "/cache/retain", Outcome.RETAINED, seconds=self.seconds(turn, called))
        return await self._ask(turn, "/cache/release", Outcome.RELEASED) if kept else None

    async def retain(self, turn: Turn, seconds: float) -> Outcome:
        """As the client says; its next turn or its release ends it."""
        place = (turn.tenant, turn.lineage)
        if place not in self._waiting:
            self._wait(place, (), 0.0)
        return await self._ask(turn, "/cache/retain", Outcome.RETAINED, seconds=seconds)

    def seconds(self, turn: Turn, called: Sequence[str]) -> float:
        """How long the gap after such a reply may last."""
        if turn.hint_s is not None:
            return min(MOST_S, max(LEAST_S, turn.hint_s))
        known = [self._gaps.quantile(_key(turn.tenant, tool), PART) for tool in set(called)]
        longest = max((UNKNOWN_S / ROOM if gap is None else gap) for gap in known)
        return round(min(MOST_S, max(LEAST_S, longest * ROOM)), 1)

    def _wait(self, place: tuple[str, str], called: Sequence[str], now: float) -> None:
        self._waiting[place] = (called, now)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    async def _ask(self, turn: Turn, path: str, done: Outcome, **wanted: float) -> Outcome:
        if not {"retain", "session"} <= turn.offers:
            return Outcome.NOT_OFFERED
        body = {"session": turn.lineage, **wanted}
        try:
            status = await self._post(turn.url + path, orjson.dumps(body), turn.tenant)
        except (OSError, TimeoutError) as error:
            log.info("%s%s: %s", turn.url, path, error)
            return Outcome.FAILED
        return done if status < 400 else Outcome.FAILED


def _key(tenant: str, tool: str) -> str:
    return f"{tenant}\0{tool}"
