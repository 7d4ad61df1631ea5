"""A server behind a URL: streamable HTTP with the headers of its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from agents.servers.config import Http
from agents.servers.life import Life, Watched

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

CONNECT_SECONDS = 10.0
GOODBYE_SECONDS = 3.0
LARGEST_EVENT = 32 * 2**20
STATUS_ONLY = frozenset({"Server returned an error response", "Not Found"})
"""What the library says where a server answered with a status and no message."""


@asynccontextmanager
async def http(way: Http, life: Life) -> AsyncIterator[TransportStreams]:
    """Enter and leave in one task. A server that goes away cancels this task inside of the block, and leaving it
    raises what happened.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def hurry(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(GOODBYE_SECONDS).as_dict()

    async def look(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            life.status = response.status_code

    # How long an answer may take is said for each call; a stream of news may be silent for ever.
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    hooks: dict[str, list[Any]] = {"request": [hurry], "response": [look]}
    async with (
        httpx2.AsyncClient(headers=dict(way.headers), timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(way.url, http_client=client, max_sse_event_size=LARGEST_EVENT) as (inbox, outbox),
    ):
        watched = Watched(inbox, life, "it closed the connection")
        yield cast("ReadStream[SessionMessage | Exception]", watched), outbox
