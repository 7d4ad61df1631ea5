"""The relay: an ASGI endpoint that hands a request to a replica and its answer back, byte for byte."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.affinity.bindings import Bindings
from gateway.dialects.base import Dialect
from gateway.errors import ClientGone, GatewayError, shutting_down, upstream_died, upstream_timeout
from gateway.observe.metrics import Metrics
from gateway.proxy.body import read_body, while_connected
from gateway.proxy.dispatch import Dispatcher, Opened, Sending
from gateway.proxy.headers import RawHeaders, to_client
from gateway.proxy.plan import Plan, plan_request
from gateway.proxy.reply import Reply, send_error
from gateway.proxy.upstream import Silent, Unreachable
from gateway.proxy.usage import Usage, UsageTap

CLIENT_GONE_STATUS = "499"


class Relay:
    """One path's endpoint. Everything that lasts longer than a request is handed in."""

    def __init__(
        self,
        path: str,
        dialect: Dialect,
        dispatcher: Dispatcher,
        bindings: Bindings,
        metrics: Metrics,
        *,
        secret: bytes,
        max_body_bytes: int,
    ) -> None:
        self._path = path
        self._dialect = dialect
        self._dispatcher = dispatcher
        self._bindings = bindings
        self._metrics = metrics
        self._secret = secret
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        since = time.monotonic()
        reply = Reply(send)
        try:
            sending = await self._read(scope, receive)
            await while_connected(receive, self._serve(sending, reply, since), lambda: reply.ended)
        except ClientGone:
            self._metrics.disconnects.labels(self._path).inc()
        except GatewayError as error:
            await send_error(reply, error)
        except asyncio.CancelledError:  # only by the server, when its time to drain is over
            if reply.status is None:
                await send_error(reply, shutting_down())
        finally:
            status = str(reply.status) if reply.status else CLIENT_GONE_STATUS
            self._metrics.requests.labels(self._path, status).inc()

    async def _read(self, scope: Scope, receive: Receive) -> Sending:
        headers: RawHeaders = scope["headers"]
        body = await read_body(receive, headers, self._max_body_bytes)
        since = time.monotonic()
        plan = plan_request(body, _by_name(headers), self._dialect, self._secret)
        query = scope["query_string"].decode("latin-1")
        return Sending(self._path + (f"?{query}" if query else ""), headers, body, plan, since)

    async def _serve(self, sending: Sending, reply: Reply, since: float) -> None:
        opened = await self._dispatcher.open(sending)
        try:
            self._metrics.ttft.observe(time.monotonic() - since)
            await self._answer(sending.plan, opened, reply)
        finally:
            await opened.aclose()

    async def _answer(self, plan: Plan, opened: Opened, reply: Reply) -> None:
        answer = opened.answer
        succeeded = answer.status < 400
        tap = UsageTap(answer.header(b"content-type"))
        # The prefix lies in the replica's cache from the first byte on, so it is bound now and the engine's own
        # count follows at the end. A plain answer waits for the write: the client's next turn may come at once.
        write = self._bind(plan, opened, None) if succeeded else None
        if not tap.is_stream:
            await self._bindings.settle(write)
        await reply.start(answer.status, to_client(answer.headers, replica=opened.replica.url))
        await self._body(opened, reply, tap)
        usage = tap.usage() if succeeded else None
        if usage is not None:
            self._count(opened, usage)
            self._bind(plan, opened, usage.prompt_tokens)

    async def _body(self, opened: Opened, reply: Reply, tap: UsageTap) -> None:
        try:
            tap.feed(opened.answer.first)
            await reply.chunk(opened.answer.first)
            async for chunk in opened.answer.rest():
                tap.feed(chunk)
                await reply.chunk(chunk)
        except (Unreachable, Silent) as error:
            died = isinstance(error, Unreachable)
            failure = (upstream_died if died else upstream_timeout)(opened.replica.url)
            if not tap.is_stream:
                return  # without an end: the server cuts the connection, and the client sees that it is short
            await reply.chunk((b"" if tap.ends_event() else b"\n\n") + failure.sse_event())
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

    def _count(self, opened: Opened, usage: Usage) -> None:
        url = opened.replica.url
        if usage.prompt_tokens is not None:
            self._metrics.prompt_tokens.labels(url).inc(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self._metrics.cached_tokens.labels(url).inc(usage.cached_tokens)


def _by_name(headers: RawHeaders) -> Mapping[str, str]:
    return Headers(raw=list(headers))
