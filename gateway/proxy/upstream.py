"""The client side of the relay: one request to one replica, its answer as raw bytes, over kept connections.

There are no cookies, redirects or headers of its own: what the relay is given goes out, what comes is handed on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from gateway.proxy.connection import Broken, Connection, Phase
from gateway.proxy.headers import RawHeaders

IDLE_S = 4.0
"""Below the five seconds after which common servers close an idle connection, often just as it is used."""
MAX_IDLE = 256
"""Kept connections to each upstream."""


class Unreachable(Exception):
    """The connection could not be made, or broke. Before the first byte another replica may be tried."""

    def __init__(self, detail: str, *, connected: bool = True) -> None:
        super().__init__(detail)
        self.connected = connected


class Silent(Exception):
    """The replica did not answer within the read timeout."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    secure: bool
    authority: bytes


class Answer:
    """An upstream's answer whose first bytes have come. `rest` yields what follows; always `aclose` it."""

    def __init__(self, connection: Connection, first: bytes, pool: Pool, silence_s: float) -> None:
        self.status = connection.status
        self.headers: RawHeaders = connection.headers
        self.first = first
        self._connection: Connection | None = connection
        self._pool = pool
        self._silence_s = silence_s

    async def rest(self) -> AsyncIterator[bytes]:
        while chunk := await self.more():
            yield chunk

    async def more(self) -> bytes:
        """The next bytes of the body; none at its end."""
        if self._connection is None:
            return b""
        try:
            return await self._connection.chunk(self._silence_s)
        except TimeoutError as error:
            raise Silent(str(error)) from error
        except Broken as error:
            raise Unreachable(str(error)) from error

    async def aclose(self) -> None:
        if self._connection is not None:
            self._pool.give_back(self._connection)
            self._connection = None

    def header(self, name: bytes) -> str:
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return ""


class Pool:
    """Connections to one address. The one that was used last is used next, so that the others may go."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._tls = tls
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()

    async def take(self, timeout_s: float) -> Connection:
        """An idle connection or a new one. Unreachable if there is none to be had."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.phase is Phase.IDLE and loop.time() - connection.heard < IDLE_S:
                return connection
            connection.close()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._all.discard), self._address.host, self._address.port, ssl=self._tls
                )
        except TimeoutError as error:
            raise Unreachable("connecting timed out", connected=False) from error
        except OSError as error:
            raise Unreachable(str(error) or type(error).__name__, connected=False) from error
        self._all.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        if not connection.release():
            return
        self._idle.append(connection)
        if len(self._idle) > MAX_IDLE:
            self._idle.popleft().close()

    def close(self) -> None:
        for connection in list(self._all):
            connection.close()


class Upstreams:
    """The connections to all replicas."""

    def __init__(self, *, connect_timeout_s: float, read_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._tls: ssl.SSLContext | None = None
        self._pools: dict[Address, Pool] = {}

    async def post(self, url: str, headers: RawHeaders, body: bytes) -> Answer:
        """Send, and wait for the first byte of the answer's body (or its end)."""
        address, path = _split(url)
        pool = self._pool(address)
        connection = await pool.take(self._connect_timeout_s)
        try:
            connection.send(_head(address, path, headers, len(body)), body)
            await connection.head(self._read_timeout_s)
            first = await connection.chunk(self._read_timeout_s)
        except TimeoutError as error:
            connection.close()
            raise Silent(str(error)) from error
        except Broken as error:
            raise Unreachable(str(error)) from error
        except BaseException:
            connection.close()
            raise
        return Answer(connection, first, pool, self._read_timeout_s)

    async def tell(self, url: str, body: bytes, tenant: str, timeout_s: float = 5.0) -> int:
        """Post a small JSON body on the gateway's own behalf; the status. OSError or TimeoutError if it fails."""
        headers = [(b"content-type", b"application/json"), (b"x-sapwood-tenant", tenant.encode())]
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self.post(url, headers, body)
                try:
                    while await answer.more():
                        pass
                finally:
                    await answer.aclose()
        except (Unreachable, Silent) as error:
            raise OSError(str(error)) from error
        return answer.status

    async def aclose(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def _pool(self, address: Address) -> Pool:
        pool = self._pools.get(address)
        if pool is None:
            if address.secure and self._tls is None:
                self._tls = ssl.create_default_context()
            pool = self._pools[address] = Pool(address, self._tls if address.secure else None)
        return pool


@lru_cache(maxsize=1024)
def _split(url: str) -> tuple[Address, str]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname or "", port, secure, parts.netloc.encode("latin-1", "replace")), path


def _head(address: Address, path: str, headers: RawHeaders, length: int) -> bytes:
    lines = [b"POST " + path.encode("latin-1", "replace") + b" HTTP/1.1", b"host: " + address.authority]
    lines += [name + b": " + value for name, value in headers]
    lines.append(b"content-length: %d\r\n\r\n" % length)
    return b"\r\n".join(lines)
