"""From a plan to an open answer: route, look up, wait for a seat, send; before the first byte, try elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.affinity.base import Level, Match
from gateway.affinity.bindings import Bindings
from gateway.errors import no_replica, upstream_timeout
from gateway.guard.door import Caller
from gateway.observe.metrics import Metrics
from gateway.observe.records import Alternative, Placed
from gateway.placement.base import RequestView
from gateway.placement.health import Health
from gateway.placement.holdings import resolve
from gateway.placement.replica import Replica, Want
from gateway.placement.seat import Seat
from gateway.proxy.headers import AHEAD, RawHeaders, to_upstream, without_credentials
from gateway.proxy.plan import Plan
from gateway.proxy.tries import Tries
from gateway.proxy.upstream import Answer, Silent, Unreachable, Upstreams
from gateway.proxy.usage import Usage
from gateway.routing.facts import Facts
from gateway.routing.pools import Pools

UNAVAILABLE = frozenset({502, 503, 504})
"""Answers that another replica may do better on."""


@dataclass(frozen=True, slots=True)
class Sending:
    """A request as it goes upstream, the same for each replica that is tried."""

    target: str
    """Path and query."""
    headers: RawHeaders
    body: bytes
    plan: Plan
    facts: Facts
    since: float
    """When the body was complete, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the bindings say of a request."""

    match: Match | None
    """The one that counts: it names the conversation."""
    matches: Sequence[Match]
    """All that were found, strongest first."""
    now_ms: int
    """When they were, by the clock that stamps bindings."""
    view: RequestView


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer that has begun. Whoever holds it says how it ended and closes it, and with it the replica's seat."""

    replica: Replica
    answer: Answer
    seat: Seat
    placed: Placed
    epoch: str
    """The replica's, when the answer began."""
    lineage: str
    used_ms: int

    def finished(self) -> None:
        """The answer came whole."""
        self.seat.finished()

    def counted(self, plan: Plan, usage: Usage) -> None:
        """What the engine says of the prompt, for the next placements."""
        if usage.prompt_tokens is not None:
            self.seat.counted(self.epoch, plan.view.tokens, usage.prompt_tokens, usage.cached_tokens)

    def broke(self) -> None:
        """The replica fell silent or was cut off in the middle."""
        self.seat.broke()

    async def aclose(self) -> None:
        try:
            await self.answer.aclose()
        finally:
            self.seat.close()


class Dispatcher:
    def __init__(
        self, pools: Pools, bindings: Bindings, upstreams: Upstreams, health: Health, metrics: Metrics
    ) -> None:
        self._pools = pools
        self._bindings = bindings
        self._upstreams = upstreams
        self._health = health
        self._metrics = metrics

    async def open(self, sending: Sending) -> Opened:
        """The first answer that is worth relaying. GatewayError if no replica gives one, or none has room in time."""
        patience_s = sending.facts.deadline_s or self._pools.config.queue.timeout_s
        give_up_at = time.monotonic() + patience_s
        known = await self._look_up(sending)
        lineage = sending.plan.lineage(known.match)
        tries = Tries()
        while tries.left() and (seat := await self._take_seat(sending, known, tries, give_up_at)):
            answer = None
            try:
                answer = await self._try(sending, seat, lineage, tries)
            finally:
                if answer is None:
                    seat.close()
            if answer is not None:
                return self._opened(seat, answer, lineage, known.now_ms, tries)
            self._metrics.failovers.labels(seat.replica.url).inc()
        raise no_replica(tries.failure or self._pools.shortage(self._pools.route(sending.facts)))

    def _opened(self, seat: Seat, answer: Answer, lineage: str, used_ms: int, tries: Tries) -> Opened:
        placed = Placed(
            replica=seat.replica.url,
            reason=seat.choice.reason.value,
            predicted_tokens=seat.choice.cached_tokens,
            prefill_tokens_per_s=seat.rate,
            attempts=tries.made + 1,
            alternatives=tuple(Alternative(url, cost) for url, cost in _by_cost(seat.choice.seconds)),
            queued_s=tries.queued_s,
        )
        return Opened(seat.replica, answer, seat, placed, seat.replica.epoch, lineage, used_ms)

    async def _look_up(self, sending: Sending) -> Known:
        now_ms = self._bindings.clock_ms()
        wanted = sending.plan.lookup()
        members = self._pools.members(self._pools.route(sending.facts))
        if self._knows_newest(sending.plan, members):
            found = self._bindings.recall(wanted)
        else:
            found = await self._bindings.find(wanted)
        match, result = resolve(found, members)
        self._metrics.lookups.labels(result.value).inc()
        view = sending.plan.view
        if self._bindings.apart:
            view = replace(view, alike=sending.facts.sticky)
        return Known(match, found.matches, now_ms, view)

    def _knows_newest(self, plan: Plan, members: Sequence[Replica]) -> bool:
        """A client that stays at one gateway costs no round trip to the shared store."""
        own = self._bindings.own(plan.newest_key) if plan.newest_key else None
        return own is not None and any((own.replica, own.epoch) == (each.url, each.epoch) for each in members)

    async def _take_seat(self, sending: Sending, known: Known, tries: Tries, give_up_at: float) -> Seat | None:
        """A seat at the best replica, perhaps after waiting for one. None if no pool of the route has one to offer."""
        want = _want(sending, known.match, tries)
        while pool := self._pools.open_to(route := self._pools.route(sending.facts), want):
            take = partial(pool.take, want, known.view, known.matches, known.now_ms)
            since = time.monotonic()
            seat = await pool.line.enter(want, route.priority, give_up_at - since, take)
            tries.queued_s += time.monotonic() - since
            if seat:
                self._metrics.decisions.labels(seat.choice.reason.value).inc()
                return seat
        return None

    async def _try(self, sending: Sending, seat: Seat, lineage: str, tries: Tries) -> Answer | None:
        """The replica's answer, or None if the request should be tried once more."""
        replica = seat.replica
        try:
            answer = await self._send(sending, replica, lineage)
        except Unreachable as error:
            if not tries.forgives(replica.url, error):
                seat.broke()
                self._health.saw_connection_fail(replica.url, str(error))
            return None
        except Silent as error:
            seat.broke()
            raise upstream_timeout(replica.url) from error
        seat.answered(answer.status)
        if answer.status in UNAVAILABLE:
            tries.give_up(replica.url, f"it answered {answer.status}")
            if tries.left() and self._pools.open_to(self._pools.route(sending.facts), _want(sending, None, tries)):
                await answer.aclose()
                return None
        return answer

    async def _send(self, sending: Sending, replica: Replica, lineage: str) -> Answer:
        headers = to_upstream(sending.headers, tenant=sending.plan.tenant, session=lineage)
        if "ahead" in replica.offers:
            headers.append(AHEAD)
        if credential := replica.terms.credential:
            headers = [*without_credentials(headers), (b"authorization", f"Bearer {credential}".encode())]
        self._metrics.added.observe(time.monotonic() - sending.since)
        answer = await self._upstreams.post(replica.url + sending.target, headers, sending.body)
        announced = answer.header(b"x-sapwood-epoch")
        if announced:
            replica.learn_epoch(announced)
        return answer


def facts_of(plan: Plan, headers: Mapping[str, str], caller: Caller) -> Facts:
    """What rules may ask of a request."""
    chain, key = plan.chain, caller.key
    first_turn = chain.links[min(chain.head + 1, len(chain.links) - 1)]
    return Facts(
        model=plan.model,
        headers=headers,
        key=key.name if key else None,
        tenant=key.tenant if key else None,
        tokens=plan.view.tokens,
        turns=len(chain.links) - 1 - chain.head,
        has_tools=chain.first_message > 1,
        sticky=plan.session or first_turn.id,
    )


def _by_cost(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: item[1])


def _want(sending: Sending, match: Match | None, tries: Tries) -> Want:
    home = match.binding.replica if match and match.level is Level.PREFIX else None
    return Want(sending.plan.model, home, tries.given_up)
