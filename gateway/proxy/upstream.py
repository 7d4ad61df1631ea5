"""The client side of the relay: one request to one replica, its answer as raw bytes.

httpx's transport is used without its client: that would keep cookies of one user for the next, add headers of
its own and follow redirects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from gateway.proxy.headers import RawHeaders

IDLE_S = 4.0
"""Below the five seconds after which common servers close an idle connection, often just as it is used."""


class Unreachable(Exception):
    """The connection could not be made, or broke. Before the first byte another replica may be tried."""

    def __init__(self, detail: str, *, connected: bool = True) -> None:
        super().__init__(detail)
        self.connected = connected


class Silent(Exception):
    """The replica did not answer within the read timeout."""


@dataclass(slots=True)
class Answer:
    """An upstream's answer whose first bytes have come. `rest` yields what follows; always `aclose` it."""

    status: int
    headers: RawHeaders
    first: bytes
    _chunks: AsyncIterator[bytes]
    _response: httpx.Response

    async def rest(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except httpx.TimeoutException as error:
            raise Silent(str(error)) from error
        except httpx.HTTPError as error:
            raise Unreachable(_describe(error)) from error

    async def aclose(self) -> None:
        await self._response.aclose()

    def header(self, name: bytes) -> str:
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return ""


class Upstreams:
    """The connection pool to all replicas."""

    def __init__(self, *, connect_timeout_s: float, read_timeout_s: float) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=IDLE_S)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
        self._timeout = {
            "connect": connect_timeout_s,
            "read": read_timeout_s,
            "write": read_timeout_s,
            "pool": connect_timeout_s,
        }

    async def post(self, url: str, headers: RawHeaders, body: bytes) -> Answer:
        """Send, and wait for the first byte of the answer's body (or its end)."""
        request = httpx.Request("POST", url, headers=list(headers), content=body, extensions={"timeout": self._timeout})
        try:
            response = await self._transport.handle_async_request(request)
            return await _begin(response)
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ConnectTimeout):
                raise Unreachable("connecting timed out", connected=False) from error
            raise Silent(str(error)) from error
        except httpx.HTTPError as error:
            connected = not isinstance(error, httpx.ConnectError)
            raise Unreachable(_describe(error), connected=connected) from error

    async def aclose(self) -> None:
        await self._transport.aclose()


async def _begin(response: httpx.Response) -> Answer:
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    chunks = aiter(stream)
    try:
        first = await anext(chunks, b"")
    except BaseException:
        await response.aclose()
        raise
    return Answer(response.status_code, response.headers.raw, first, chunks, response)


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
