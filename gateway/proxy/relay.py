"""The relay: an ASGI endpoint that hands a request to a replica and its answer back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.affinity.bindings import Bindings
from gateway.errors import (
    ClientGone,
    GatewayError,
    internal_error,
    invalid_json,
    shutting_down,
    upstream_died,
    upstream_timeout,
)
from gateway.guard.door import Caller, Door
from gateway.guard.streams import Place, Streams
from gateway.observe.observation import CLIENT_GONE, INTERNAL_ERROR, Observation, Observations
from gateway.proxy.body import Intake, while_connected
from gateway.proxy.dispatch import Dispatcher, Opened, Sending, facts_of
from gateway.proxy.headers import RawHeaders, said_by_gateway, seconds_in, to_client, without_credentials
from gateway.proxy.heartbeat import Heartbeat
from gateway.proxy.inbound import Inbound, Reader
from gateway.proxy.outlet import STREAM_TYPE, Outlet, as_failure
from gateway.proxy.plan import Plan, plan_request
from gateway.proxy.reply import Reply, send_error
from gateway.proxy.rewriting import Rewriting
from gateway.proxy.upstream import Silent, Unreachable
from gateway.proxy.usage import UsageTap
from gateway.retention.keeper import Keeper, Turn
from gateway.routing.facts import Facts

log = logging.getLogger("sapwood.gateway")

STREAM_HEADERS = ((b"content-type", STREAM_TYPE.encode()), (b"cache-control", b"no-cache"))


@dataclass(frozen=True, slots=True)
class Settings:
    max_body_bytes: int
    heartbeat_s: float
    """After so long a silence a client that waits for a stream hears that it is still coming; 0 is never."""
    client_timeout_s: float
    """For the client to send its body, unless that is large."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, read and let in."""

    caller: Caller
    inbound: Inbound
    sending: Sending
    seen: Observation


class Relay:
    """One path's endpoint. Everything that lasts longer than a request is handed in."""

    def __init__(
        self,
        path: str,
        reader: Reader,
        door: Door,
        streams: Streams,
        rewriting: Rewriting,
        dispatcher: Dispatcher,
        bindings: Bindings,
        keeper: Keeper,
        observations: Observations,
        settings: Settings,
    ) -> None:
        self._path = path
        self._reader = reader
        self._door = door
        self._streams = streams
        self._rewriting = rewriting
        self._dispatcher = dispatcher
        self._bindings = bindings
        self._keeper = keeper
        self._observations = observations
        self._background: set[asyncio.Task[None]] = set()
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = self._observations.begin(self._path, scope["headers"])
        reply = Reply(send, seen.headers)
        error: str | None = INTERNAL_ERROR
        intake = Intake(receive)
        place: Place | None = None
        try:
            caller = await self._door.admit(Headers(raw=list(scope["headers"])))
            place = self._streams.enter(caller)
            ask = await self._read(scope, caller, intake, seen)
            error = await while_connected(receive, self._serve(ask, reply), lambda: reply.ended)
        except ClientGone:
            error = CLIENT_GONE
        except GatewayError as refused:
            error = refused.code
            await self._refuse(refused, reply, intake)
        except asyncio.CancelledError:  # only by the server, when its time to drain is over
            ending = shutting_down()
            error = ending.code
            await self._refuse(ending, reply, intake)
        except Exception:
            log.exception("%s failed", self._path)
            await self._refuse(internal_error(), reply, intake)
            if reply.status is not None and not reply.ended:
                raise  # without an end: the server cuts the connection, and the client sees that it is short
        finally:
            if place is not None:
                place.free()
            seen.end(reply.status, error)

    async def _refuse(self, error: GatewayError, reply: Reply, intake: Intake) -> None:
        if reply.status is None:
            await send_error(reply, error, self._reader.refuse(as_failure(error)), intake)

    async def _read(self, scope: Scope, caller: Caller, intake: Intake, seen: Observation) -> Ask:
        headers: RawHeaders = scope["headers"]
        body = await intake.read(headers, self._settings.max_body_bytes, self._settings.client_timeout_s)
        since = time.monotonic()
        try:
            inbound, plan, facts = self._understand(body, Headers(raw=list(headers)), caller)
        except RecursionError:
            raise invalid_json("is nested too deeply") from None
        seen.asked(plan)
        await self._door.take(caller, plan.view.tokens)
        query = "" if inbound.translated else scope["query_string"].decode("latin-1")
        target = inbound.target + (f"?{query}" if query else "")
        passed = seen.to_upstream(headers if caller.key is None else without_credentials(headers))
        return Ask(caller, inbound, Sending(target, passed, inbound.body, plan, facts, since), seen)

    def _understand(self, body: bytes, headers: Headers, caller: Caller) -> tuple[Inbound, Plan, Facts]:
        """GatewayError for what can't be read; RecursionError for what is nested too deeply."""
        inbound = self._reader.read(body)
        plan = plan_request(inbound.conversation, headers, caller.tenant)
        facts = facts_of(plan, headers, caller)
        revised = self._rewriting.revise(inbound, plan, facts)
        if revised is inbound:
            return inbound, plan, facts
        plan = plan_request(revised.conversation, headers, caller.tenant)
        return revised, plan, facts_of(plan, headers, caller)

    async def _serve(self, ask: Ask, reply: Reply) -> str | None:
        """The code of an error that came after the answer had begun; None if all went well."""
        inbound, sending, outlet = ask.inbound, ask.sending, ask.inbound.outlet

        async def beat() -> None:
            if sign := outlet.heartbeat():
                if reply.status is None:
                    await reply.start(200, [*STREAM_HEADERS, *said_by_gateway(inbound.warnings, inbound.notes)])
                await reply.chunk(sign)

        async with Heartbeat(self._settings.heartbeat_s if inbound.stream else 0, beat) as heart:
            try:
                opened = await self._dispatcher.open(sending)
            except GatewayError as error:
                await heart.stop()
                if reply.status is None:
                    raise
                await reply.chunk(outlet.fail(as_failure(error)))
                await reply.end()
                return error.code
            try:
                status = opened.answer.status
                ask.seen.opened(sending.plan, opened.placed, opened.lineage, opened.epoch, status)
                self._keeper.turn_begins(sending.plan.tenant, opened.lineage, ask.seen.since)
                return await self._answer(ask, opened, reply, heart)
            finally:
                await opened.aclose()

    async def _answer(self, ask: Ask, opened: Opened, reply: Reply, heart: Heartbeat) -> str | None:
        inbound, plan, answer = ask.inbound, ask.sending.plan, opened.answer
        succeeded = answer.status < 400
        tap = UsageTap(answer.header(b"content-type"), inbound.heard)
        # The prefix lies in the replica's cache from the first byte on, so it is bound now and the engine's own
        # count follows at the end. A plain answer waits for the write: the client's next turn may come at once.
        write = self._bind(plan, opened, None) if succeeded else None
        if not tap.is_stream:
            await self._bindings.settle(write)
        if inbound.outlet.holds(answer.status, answer.header(b"content-type"), reply.status is not None):
            await heart.stop()
            error = await self._whole(ask, opened, reply, tap)
        else:
            if reply.status is None:
                headers = to_client(answer.headers, replica=opened.replica.url, translated=inbound.translated)
                headers += STREAM_HEADERS if inbound.translated else ()
                await reply.start(answer.status, [*headers, *_said(ask)])
            error = await self._stream(inbound.outlet, opened, reply, tap, heart)
        if not succeeded:
            return error
        if inbound.heard is not None and error is None:
            inbound.heard.ended(tap.is_stream)
        usage = tap.usage()
        ask.seen.counted(usage, tap.finish(), stream=tap.is_stream)
        if usage is not None:
            self._bind(plan, opened, usage.prompt_tokens)
            opened.counted(plan, usage)
            self._door.settle(ask.caller, plan.view.tokens, usage.total)
        self._keep(ask.sending, opened, tap.called())
        return error

    async def _stream(
        self, outlet: Outlet, opened: Opened, reply: Reply, tap: UsageTap, heart: Heartbeat
    ) -> str | None:
        """Each piece as it comes."""
        answer, piece = opened.answer, opened.answer.first
        broken = None
        try:
            while piece:
                tap.feed(piece)
                if said := outlet.feed(piece):
                    heart.heard()
                    await reply.chunk(said)
                piece = await answer.more()
        except (Unreachable, Silent) as error:
            opened.broke()
            broken = _broken(error, opened)
            await heart.stop()
            if not tap.is_stream:
                return broken.code  # without an end: the server cuts the connection, and the client sees it is short
            await reply.chunk(outlet.fail(as_failure(broken)))
        else:
            opened.finished()
            await heart.stop()
            await reply.chunk(outlet.end())
        await reply.end()
        return broken.code if broken else None

    async def _whole(self, ask: Ask, opened: Opened, reply: Reply, tap: UsageTap) -> str | None:
        """An answer that can be told only when it is whole."""
        answer, outlet, begun = opened.answer, ask.inbound.outlet, reply.status is not None
        broken = None
        try:
            pieces = [answer.first]
            while piece := await answer.more():
                pieces.append(piece)
        except (Unreachable, Silent) as error:
            opened.broke()
            broken = _broken(error, opened)
            if not begun:
                raise broken from error
            await reply.chunk(outlet.fail(as_failure(broken)))
        else:
            opened.finished()
            body = b"".join(pieces)
            tap.feed(body)
            held = outlet.held(answer.status, body, begun)
            if not begun:
                headers = to_client(answer.headers, replica=opened.replica.url, translated=True)
                await reply.start(held.status, [*headers, *_said(ask), *held.headers])
            await reply.chunk(held.body)
        await reply.end()
        return broken.code if broken else None

    def _bind(self, plan: Plan, opened: Opened, tokens: int | None) -> asyncio.Task[None] | None:
        if not opened.epoch:
            return None
        values = plan.bindings(
            replica=opened.replica.url,
            epoch=opened.epoch,
            lineage=opened.lineage,
            tokens=tokens,
            used_ms=opened.used_ms,
        )
        return self._bindings.bind(values)

    def _keep(self, sending: Sending, opened: Opened, called: Sequence[str]) -> None:
        """The client has its answer; what is asked of the replica now keeps nobody waiting."""
        hint_s = seconds_in(sending.headers)
        turn = Turn(sending.plan.tenant, opened.lineage, opened.replica.url, opened.replica.offers, hint_s)

        async def keep() -> None:
            outcome = await self._keeper.reply_ended(turn, called, time.monotonic())
            if outcome is not None:
                self._observations.metrics.retentions.labels(outcome.value).inc()

        task = asyncio.create_task(keep())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _said(ask: Ask) -> list[tuple[bytes, bytes]]:
    """The gateway's own headers of an answer that a replica gave."""
    return [*said_by_gateway(ask.inbound.warnings, ask.inbound.notes), *ask.seen.cache_headers()]


def _broken(error: Unreachable | Silent, opened: Opened) -> GatewayError:
    return (upstream_died if isinstance(error, Unreachable) else upstream_timeout)(opened.replica.url)
