"""HTTP as clients speak it, with bounds: on a request's head, on its time, and on what waits for a slow reader.

It is uvicorn's protocol with the checks that need the connection itself; what can be said in ASGI is elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import GatewayError, client_too_slow, head_too_large

MAX_HEAD_BYTES = 64 * 1024
DISCARD_S = 2.0
FIELD_BYTES = 32
"""What a header costs besides its text: many empty ones are a bomb too."""
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}

Refusal = Callable[[str, GatewayError], bytes]
"""From a request's path, as far as it is known, to the body of the error's answer."""


class _TooLarge(Exception):
    """Ends the parser's work."""


class GuardedHttp(HttpToolsProtocol):
    client_timeout_s: float
    refusal: Refusal

    _timer: asyncio.TimerHandle | None = None
    """Of a head that is coming in, or of an answer that must leave; one of them at a time matters."""
    _in_head = True
    _head_size = 0
    """Of the bytes that came while the head was incomplete."""
    _fields_size = 0
    _refused = False
    """What a client still sends is taken in for a moment, so that it finds the answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.url = b""
        self._arm(self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        if self._in_head and not self._refused and self._head_size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(head_too_large(MAX_HEAD_BYTES))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._fields_size = True, 0
        if not self._is_answering:
            self._arm(self._head_is_late)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + FIELD_BYTES)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_size = False, 0
        self._disarm()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What the parser can't read, or no more of."""
        if self._in_head and max(self._head_size, self._fields_size) > MAX_HEAD_BYTES:
            self._refuse(head_too_large(MAX_HEAD_BYTES))
        else:
            self._refuse(GatewayError("The request is no valid HTTP.", code="invalid_http", status=400))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm(self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._arm(self.transport.abort)  # the last bytes may find nobody who takes them

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._arm(self.transport.abort)

    def _count(self, size: int) -> None:
        self._fields_size += size
        if self._fields_size > MAX_HEAD_BYTES:
            raise _TooLarge

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _head_is_late(self) -> None:
        if self._is_answering:
            self._arm(self._head_is_late)
        elif self._head_size:
            self._refuse(client_too_slow("head", self.client_timeout_s))
        else:
            self.transport.close()

    def _refuse(self, error: GatewayError) -> None:
        """The answer to what is no request. Nothing may be said in the middle of another answer."""
        if self.transport.is_closing() or self._refused:
            return
        if self._is_answering and self.cycle.response_started:
            self.transport.abort()
            return
        body = type(self).refusal(self.url.partition(b"?")[0].decode("latin-1"), error)
        head = (
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            % (error.status, _REASONS[error.status], len(body))
        )
        self.transport.write(head + body)
        self.transport.write_eof()
        self._refused = True
        self._arm(self.transport.abort, DISCARD_S)

    def _arm(self, due: Callable[[], None], delay_s: float | None = None) -> None:
        self._disarm()
        self._timer = self.loop.call_later(self.client_timeout_s if delay_s is None else delay_s, due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guarded_http(client_timeout_s: float, refusal: Refusal) -> type[GuardedHttp]:
    """For `uvicorn.Config(http=…)`."""
    settings = {"client_timeout_s": client_timeout_s, "refusal": staticmethod(refusal)}
    return type("GuardedHttp", (GuardedHttp,), settings)
