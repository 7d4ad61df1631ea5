"""The answer to the client over ASGI: which part of it is out already decides what can still be said."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Send

from gateway.errors import GatewayError
from gateway.proxy.body import Intake


class Reply:
    def __init__(self, send: Send, always: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """`always`: headers of whatever answer it will be."""
        self._send = send
        self._always = always
        self.status: int | None = None
        """Set once the status line is out."""
        self.ended = False

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self._always]})

    async def chunk(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_error(reply: Reply, error: GatewayError, body: bytes, intake: Intake) -> None:
    """The whole answer, where none has begun; `body` is the error in the client's dialect. A client that is still
    sending is heard out for a moment, so that it finds the answer, and then cut."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if not intake.whole:
        headers.append((b"connection", b"close"))
    await reply.start(error.status, headers)
    await reply.chunk(body)
    await intake.discard()
    await reply.end()
