"""From a plan to an open answer: look up, place, send; before the first byte, try elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gateway.affinity.base import Match
from gateway.affinity.bindings import Bindings
from gateway.errors import no_replica, upstream_timeout
from gateway.observe.metrics import Metrics
from gateway.placement.health import Health
from gateway.placement.load import Flight
from gateway.placement.policy import Placement, ReplicaView, resolve
from gateway.placement.replica import Replica, candidates
from gateway.proxy.headers import RawHeaders, to_upstream
from gateway.proxy.plan import Plan
from gateway.proxy.upstream import Answer, Silent, Unreachable, Upstreams

UNAVAILABLE = frozenset({502, 503, 504})
"""Answers that another replica may do better on."""
MAX_TRIES = 4


@dataclass(frozen=True, slots=True)
class Sending:
    """A request as it goes upstream, the same for each replica that is tried."""

    target: str
    """Path and query."""
    headers: RawHeaders
    body: bytes
    plan: Plan
    since: float
    """When the body was complete, by the monotonic clock."""


class Tries:
    """Where a request has been. Few tries in all: it may be the request that brings replicas down."""

    def __init__(self) -> None:
        self.given_up: set[str] = set()
        self.failure = "none is healthy"
        self._broken: set[str] = set()
        self._left = MAX_TRIES

    def left(self) -> bool:
        return self._left > 0

    def give_up(self, url: str, failure: str) -> None:
        self.given_up.add(url)
        self.failure = f"{url}: {failure}"
        self._left -= 1

    def forgives(self, url: str, error: Unreachable) -> bool:
        """A connection that was made and then broke may have been an idle one that the replica just closed.

        So the first of them gets a second try; a replica that is really gone then refuses the new connection.
        """
        if error.connected and url not in self._broken:
            self._broken.add(url)
            self._left -= 1
            self.failure = f"{url}: {error}"
            return True
        self.give_up(url, str(error))
        return False


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer that has begun. Whoever holds it closes it, and with it the replica's counters."""

    replica: Replica
    answer: Answer
    flight: Flight
    epoch: str
    """The replica's, when the answer began."""
    lineage: str
    used_ms: int

    async def aclose(self) -> None:
        try:
            await self.answer.aclose()
        finally:
            self.flight.close()


class Dispatcher:
    def __init__(
        self,
        replicas: list[Replica],
        bindings: Bindings,
        placement: Placement,
        upstreams: Upstreams,
        health: Health,
        metrics: Metrics,
    ) -> None:
        self._replicas = {replica.url: replica for replica in replicas}
        self._bindings = bindings
        self._placement = placement
        self._upstreams = upstreams
        self._health = health
        self._metrics = metrics

    async def open(self, sending: Sending) -> Opened:
        """The first answer that is worth relaying. GatewayError if no replica gives one."""
        used_ms = self._bindings.clock_ms()
        match = await self._look_up(sending.plan)
        lineage = sending.plan.lineage(match)
        tries = Tries()
        while tries.left() and (chosen := self._choose(sending.plan, match, tries)):
            replica, flight = chosen
            answer = None
            try:
                answer = await self._try(sending, replica, lineage, tries)
            finally:
                if answer is None:
                    flight.close()
            if answer is not None:
                flight.first_byte()
                return Opened(replica, answer, flight, replica.epoch, lineage, used_ms)
            self._metrics.failovers.labels(replica.url).inc()
        raise no_replica(tries.failure)

    async def _try(self, sending: Sending, replica: Replica, lineage: str, tries: Tries) -> Answer | None:
        """The replica's answer, or None if the request should be tried once more."""
        try:
            answer = await self._send(sending, replica, lineage)
        except Unreachable as error:
            if not tries.forgives(replica.url, error):
                self._health.saw_connection_fail(replica.url, str(error))
            return None
        except Silent as error:
            raise upstream_timeout(replica.url) from error
        if answer.status in UNAVAILABLE:
            tries.give_up(replica.url, f"it answered {answer.status}")
            if tries.left() and self._candidates(sending.plan, tries):
                await answer.aclose()
                return None
        return answer

    async def _look_up(self, plan: Plan) -> Match | None:
        found = await self._bindings.find(plan.lookup())
        match, result = resolve(found, [_view(replica, 0) for replica in self._candidates(plan, Tries())])
        self._metrics.lookups.labels(result.value).inc()
        return match

    def _choose(self, plan: Plan, match: Match | None, tries: Tries) -> tuple[Replica, Flight] | None:
        open_to = self._candidates(plan, tries)
        if not open_to:
            return None
        now = time.monotonic()
        choice = self._placement.choose(plan.view, [_view(replica, now) for replica in open_to], match)
        self._metrics.decisions.labels(choice.reason.value).inc()
        replica = self._replicas[choice.url]
        return replica, Flight(replica.load, plan.view.tokens - choice.cached_tokens, now)

    async def _send(self, sending: Sending, replica: Replica, lineage: str) -> Answer:
        headers = to_upstream(sending.headers, tenant=sending.plan.tenant, session=lineage)
        self._metrics.added.observe(time.monotonic() - sending.since)
        answer = await self._upstreams.post(replica.url + sending.target, headers, sending.body)
        announced = answer.header(b"x-sapwood-epoch")
        if announced:
            replica.learn_epoch(announced)
        return answer

    def _candidates(self, plan: Plan, tries: Tries) -> list[Replica]:
        return candidates(list(self._replicas.values()), plan.model, tries.given_up)


def _view(replica: Replica, now: float) -> ReplicaView:
    load = replica.load
    return ReplicaView(replica.url, replica.epoch, load.in_flight, load.waiting_tokens, load.recent.value(now))
