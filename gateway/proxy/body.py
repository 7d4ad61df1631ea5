"""Reading a request's body from ASGI, within a limit, and noticing that the client is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from gateway.errors import ClientGone, body_too_large
from gateway.proxy.headers import RawHeaders

T = TypeVar("T")

DISCARD_BYTES = 64 * 2**20
DISCARD_S = 2.0


async def read_body(receive: Receive, headers: RawHeaders, limit: int) -> bytes:
    if _announced(headers) > limit:
        await discard(receive)
        raise body_too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        chunk, more = await _receive_chunk(receive)
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            await discard(receive)
            raise body_too_large(limit)
        if not more:
            return b"".join(chunks)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T], ended: Callable[[], bool]) -> T:
    """The work's result. If the client leaves first, the work is cancelled, awaited, and ClientGone raised.

    A server also reports a disconnect once the whole answer is out (`ended`); that is no reason to stop.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and not ended():
            raise ClientGone
        return await task
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _receive_chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


async def discard(receive: Receive) -> None:
    """Take in some more of a body that is refused: a client in mid-sentence would not hear the answer."""
    left, more = DISCARD_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S):
            while more and left > 0:
                chunk, more = await _receive_chunk(receive)
                left -= len(chunk)


def _announced(headers: RawHeaders) -> int:
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0
