"""One HTTP/1.1 connection to an upstream: a request at a time, its answer's body as raw bytes.

A relayed stream passes here chunk by chunk, tens of thousands in a second, so bytes go from the socket through the
parser (llhttp) to whoever waits for them, with nothing in between. What came while nobody waited is handed on as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import cast

import httptools

from gateway.proxy.headers import RawHeaders

HIGH_WATER = 256 * 1024
"""So much of a body may lie here unread before the upstream is held back."""
MAX_HEAD = 256 * 1024


class Broken(Exception):
    """The connection ended too early, or said something that is no HTTP."""


class Phase(Enum):
    IDLE = "idle"
    HEAD = "head"
    """The request is sent, the answer's head has not come."""
    BODY = "body"
    WHOLE = "whole"
    """The answer is complete."""
    CLOSED = "closed"


class Connection(asyncio.Protocol):
    """Made by `loop.create_connection`. `lost` is called once, when the connection has ended."""

    def __init__(self, lost: Callable[[Connection], None]) -> None:
        self.phase = Phase.IDLE
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.heard = 0.0
        """When bytes last came or a request went, by the loop's clock."""
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpResponseParser | None = None
        self._head_size = 0
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self._held = 0
        self._paused = False
        self._until_closed = False
        self._reusable = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: Broken | None = None

    # What its owner does with it

    def send(self, head: bytes, body: bytes) -> None:
        """Begin an exchange. Only while the phase is IDLE."""
        assert self.phase is Phase.IDLE
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self._head_size = 0, [], 0
        self.phase, self._until_closed, self._reusable = Phase.HEAD, False, False
        self.heard = self._loop.time()
        self._transport.writelines((head, body))

    async def head(self, silence_s: float) -> None:
        """Until the answer's head is there. Broken, or TimeoutError after so long a silence."""
        while self.phase is Phase.HEAD:
            await self._wait(silence_s)
        self._raise_if_broken()

    async def chunk(self, silence_s: float) -> bytes:
        """What has come of the body, as soon as there is something; nothing at its end."""
        while not self._chunks and self.phase is Phase.BODY:
            await self._wait(silence_s)
        if self._chunks:
            return self._take()
        self._raise_if_broken()
        return b""

    def release(self) -> bool:
        """The exchange is over; whether the connection can take another one. If not, it is closed."""
        if self.phase is Phase.WHOLE and self._reusable and not self._chunks:
            self.phase = Phase.IDLE
            self.heard = self._loop.time()
            return True
        self.close()
        return False

    def close(self) -> None:
        self.phase = Phase.CLOSED
        if self._transport is not None:
            self._transport.abort()

    def _take(self) -> bytes:
        chunks, self._chunks, self._held = self._chunks, [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _wait(self, silence_s: float) -> None:
        """Until something happens. The timer is set once and looks again, as most waits are short."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(self.heard + silence_s, self._check_silence, waiter, silence_s)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _check_silence(self, waiter: asyncio.Future[None], silence_s: float) -> None:
        if not waiter.done():
            waiter.set_exception(TimeoutError(f"nothing for {silence_s:g} s"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _raise_if_broken(self) -> None:
        if self.phase is Phase.CLOSED:
            raise self._error or Broken("the connection was closed")

    def _break(self, why: str) -> None:
        if self.phase in (Phase.HEAD, Phase.BODY):
            self._error = Broken(why)
        self.close()
        self._wake()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's have another base

    def data_received(self, data: bytes) -> None:
        if self.phase in (Phase.IDLE, Phase.WHOLE, Phase.CLOSED) or self._parser is None:
            self.close()  # nobody asked
            return
        self.heard = self._loop.time()
        if self.phase is Phase.HEAD:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(f"no HTTP answer: {error}")
            return
        if self.phase is Phase.HEAD and self._head_size > MAX_HEAD:
            self._break("its answer's head is too large")
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self.phase is Phase.BODY and self._until_closed and error is None:
            self.phase = Phase.WHOLE  # the end of a body without a length
            self._wake()
        else:
            self._break(str(error) if error else "the connection was closed before the answer was complete")
        self._lost(self)

    # What the parser calls

    def on_message_begin(self) -> None:
        if self.phase is Phase.WHOLE:
            self._reusable = False  # nobody asked for what stands behind the answer

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is Phase.HEAD:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        if self.phase is not Phase.HEAD:
            return
        self.status = parser.get_status_code()
        if self.status < 200:
            return
        self._reusable = parser.should_keep_alive()
        self._until_closed = not _has_length(self.status, self.headers)
        self.phase = Phase.BODY

    def on_body(self, body: bytes) -> None:
        if self.phase is not Phase.BODY:
            return
        self._chunks.append(body)
        self._held += len(body)
        if self._held > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.phase is Phase.BODY:
            self.phase = Phase.WHOLE
        elif self.phase is Phase.HEAD:
            self.headers = []  # of a 1xx, before the answer proper


def _has_length(status: int, headers: RawHeaders) -> bool:
    """Whether the end of the body can be told from its bytes (RFC 9112, 6.3)."""
    if status in (204, 304):
        return True
    names = {name.lower() for name, _ in headers}
    return b"content-length" in names or b"transfer-encoding" in names
