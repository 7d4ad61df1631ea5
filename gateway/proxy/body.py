"""Reading a request's body from ASGI, within a limit, and noticing that the client is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.types import Receive

from gateway.errors import ClientGone, body_too_large, client_too_slow
from gateway.proxy.headers import RawHeaders

T = TypeVar("T")

MIN_BYTES_PER_S = 16 * 1024
DISCARD_BYTES = 256 * 2**20
DISCARD_S = 2.0


class Intake:
    """A request's body, as it comes in over ASGI."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.whole = False
        """Whether all of it has been taken in."""

    async def read(self, headers: RawHeaders, limit: int, timeout_s: float) -> bytes:
        """GatewayError 413 for more than `limit` bytes; 408 where it takes longer than `timeout_s`, and a second more
        for each `MIN_BYTES_PER_S`."""
        if _announced(headers) > limit:
            raise body_too_large(limit)
        chunks: list[bytes] = []
        try:
            size = 0
            start = asyncio.get_running_loop().time()
            async with asyncio.timeout(timeout_s) as deadline:
                while not self.whole:
                    if chunks:
                        deadline.reschedule(start + timeout_s + size / MIN_BYTES_PER_S)
                    chunks.append(await self._chunk())
                    size += len(chunks[-1])
                    if size > limit:
                        raise body_too_large(limit)
            return b"".join(chunks)
        except TimeoutError:
            raise client_too_slow("body", timeout_s) from None
        finally:
            chunks.clear()  # the error's traceback would hold them

    async def discard(self) -> None:
        """Take in some more of a body that is refused: a client in mid-sentence would not hear the answer."""
        left = DISCARD_BYTES
        with contextlib.suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(DISCARD_S):
                while not self.whole and left > 0:
                    left -= len(await self._chunk())

    async def _chunk(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.whole = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body


async def while_connected(receive: Receive, work: Awaitable[T], ended: Callable[[], bool]) -> T:
    """The work's result. If the client leaves first, the work is cancelled, and ClientGone raised at its end.

    A server also reports a disconnect once the whole answer is out (`ended`); that is no reason to stop.
    """
    task = asyncio.current_task()
    assert task is not None
    over = gone = False

    def leave(watch: asyncio.Task[None]) -> None:
        nonlocal gone
        if not over and not watch.cancelled() and not ended():
            gone = task.cancel()

    watch = asyncio.create_task(_disconnect(receive))
    watch.add_done_callback(leave)
    try:
        return await work
    finally:
        over = True
        watch.cancel()
        if gone and not task.uncancel():  # nobody else wants it cancelled
            raise ClientGone from None


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _announced(headers: RawHeaders) -> int:
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0
