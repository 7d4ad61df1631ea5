"""The relay: an ASGI endpoint that hands a request to a replica and its answer back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.affinity.bindings import Bindings
from gateway.errors import ClientGone, GatewayError, shutting_down, upstream_died, upstream_timeout
from gateway.guard.door import Caller, Door
from gateway.observe.metrics import Metrics
from gateway.proxy.body import discard, read_body, while_connected
from gateway.proxy.dispatch import Dispatcher, Opened, Sending
from gateway.proxy.headers import RawHeaders, said_by_gateway, seconds_in, to_client, without_credentials
from gateway.proxy.heartbeat import Heartbeat
from gateway.proxy.inbound import Inbound, Reader
from gateway.proxy.outlet import STREAM_TYPE, Outlet, as_failure
from gateway.proxy.plan import Plan, plan_request
from gateway.proxy.reply import Reply, send_error
from gateway.proxy.upstream import Silent, Unreachable
from gateway.proxy.usage import Usage, UsageTap
from gateway.retention.keeper import Keeper, Turn

CLIENT_GONE_STATUS = "499"
STREAM_HEADERS = ((b"content-type", STREAM_TYPE.encode()), (b"cache-control", b"no-cache"))


@dataclass(frozen=True, slots=True)
class Settings:
    max_body_bytes: int
    heartbeat_s: float
    """After so long a silence a client that waits for a stream hears that it is still coming; 0 is never."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, read and let in."""

    caller: Caller
    inbound: Inbound
    sending: Sending


class Relay:
    """One path's endpoint. Everything that lasts longer than a request is handed in."""

    def __init__(
        self,
        path: str,
        reader: Reader,
        door: Door,
        dispatcher: Dispatcher,
        bindings: Bindings,
        keeper: Keeper,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self._path = path
        self._reader = reader
        self._door = door
        self._dispatcher = dispatcher
        self._bindings = bindings
        self._keeper = keeper
        self._metrics = metrics
        self._background: set[asyncio.Task[None]] = set()
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        since = time.monotonic()
        reply = Reply(send)
        try:
            ask = await self._read(scope, receive)
            await while_connected(receive, self._serve(ask, reply, since), lambda: reply.ended)
        except ClientGone:
            self._metrics.disconnects.labels(self._path).inc()
        except GatewayError as error:
            await send_error(reply, error, self._reader.refuse(as_failure(error)))
        except asyncio.CancelledError:  # only by the server, when its time to drain is over
            if reply.status is None:
                ending = shutting_down()
                await send_error(reply, ending, self._reader.refuse(as_failure(ending)))
        finally:
            status = str(reply.status) if reply.status else CLIENT_GONE_STATUS
            self._metrics.requests.labels(self._path, status).inc()

    async def _read(self, scope: Scope, receive: Receive) -> Ask:
        headers: RawHeaders = scope["headers"]
        named = Headers(raw=list(headers))
        try:
            caller = await self._door.admit(named)
        except GatewayError:
            await discard(receive)
            raise
        body = await read_body(receive, headers, self._settings.max_body_bytes)
        since = time.monotonic()
        inbound = self._reader.read(body)
        plan = plan_request(inbound.conversation, named, caller.tenant)
        await self._door.take(caller, plan.view.tokens)
        query = "" if inbound.translated else scope["query_string"].decode("latin-1")
        target = inbound.target + (f"?{query}" if query else "")
        passed = headers if caller.key is None else without_credentials(headers)
        return Ask(caller, inbound, Sending(target, passed, inbound.body, plan, since))

    async def _serve(self, ask: Ask, reply: Reply, since: float) -> None:
        inbound, sending, outlet = ask.inbound, ask.sending, ask.inbound.outlet

        async def beat() -> None:
            if sign := outlet.heartbeat():
                if reply.status is None:
                    await reply.start(200, [*STREAM_HEADERS, *said_by_gateway(inbound.warnings)])
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
                return
            try:
                self._metrics.ttft.observe(time.monotonic() - since)
                self._keeper.turn_begins(sending.plan.tenant, opened.lineage, since)
                await self._answer(ask, opened, reply, heart)
            finally:
                await opened.aclose()

    async def _answer(self, ask: Ask, opened: Opened, reply: Reply, heart: Heartbeat) -> None:
        inbound, plan, answer = ask.inbound, ask.sending.plan, opened.answer
        succeeded = answer.status < 400
        tap = UsageTap(answer.header(b"content-type"))
        # The prefix lies in the replica's cache from the first byte on, so it is bound now and the engine's own
        # count follows at the end. A plain answer waits for the write: the client's next turn may come at once.
        write = self._bind(plan, opened, None) if succeeded else None
        if not tap.is_stream:
            await self._bindings.settle(write)
        if inbound.outlet.holds(answer.status, answer.header(b"content-type"), reply.status is not None):
            await heart.stop()
            await self._whole(inbound, opened, reply, tap)
        else:
            if reply.status is None:
                headers = to_client(answer.headers, replica=opened.replica.url, translated=inbound.translated)
                headers += STREAM_HEADERS if inbound.translated else ()
                await reply.start(answer.status, [*headers, *said_by_gateway(inbound.warnings)])
            await self._stream(inbound.outlet, opened, reply, tap, heart)
        if not succeeded:
            return
        usage = tap.usage()
        if usage is not None:
            self._count(opened, usage)
            self._bind(plan, opened, usage.prompt_tokens)
            self._door.settle(ask.caller, plan.view.tokens, usage.total)
        self._keep(ask.sending, opened, tap.called())

    async def _stream(self, outlet: Outlet, opened: Opened, reply: Reply, tap: UsageTap, heart: Heartbeat) -> None:
        """Each piece as it comes."""
        answer, piece = opened.answer, opened.answer.first
        try:
            while piece:
                tap.feed(piece)
                if said := outlet.feed(piece):
                    heart.heard()
                    await reply.chunk(said)
                piece = await answer.more()
        except (Unreachable, Silent) as error:
            await heart.stop()
            if not tap.is_stream:
                return  # without an end: the server cuts the connection, and the client sees that it is short
            await reply.chunk(outlet.fail(as_failure(_broken(error, opened))))
        else:
            await heart.stop()
            await reply.chunk(outlet.end())
        await reply.end()

    async def _whole(self, inbound: Inbound, opened: Opened, reply: Reply, tap: UsageTap) -> None:
        """An answer that can be told only when it is whole."""
        answer, outlet, begun = opened.answer, inbound.outlet, reply.status is not None
        try:
            pieces = [answer.first]
            while piece := await answer.more():
                pieces.append(piece)
        except (Unreachable, Silent) as error:
            if not begun:
                raise _broken(error, opened) from error
            await reply.chunk(outlet.fail(as_failure(_broken(error, opened))))
        else:
            body = b"".join(pieces)
            tap.feed(body)
            held = outlet.held(answer.status, body, begun)
            if not begun:
                headers = to_client(answer.headers, replica=opened.replica.url, translated=True)
                await reply.start(held.status, [*headers, *said_by_gateway(inbound.warnings), *held.headers])
            await reply.chunk(held.body)
        await reply.end()

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
                self._metrics.retentions.labels(outcome.value).inc()

        task = asyncio.create_task(keep())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _count(self, opened: Opened, usage: Usage) -> None:
        url = opened.replica.url
        if usage.prompt_tokens is not None:
            self._metrics.prompt_tokens.labels(url).inc(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self._metrics.cached_tokens.labels(url).inc(usage.cached_tokens)


def _broken(error: Unreachable | Silent, opened: Opened) -> GatewayError:
    return (upstream_died if isinstance(error, Unreachable) else upstream_timeout)(opened.replica.url)
