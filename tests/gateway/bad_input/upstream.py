"""An upstream on a raw socket that answers a POST with whatever bytes a test wants, and then does what it wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from enum import Enum


class Then(Enum):
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"
    """Until the other side closes."""


class RawUpstream:
    """Healthy and with a model by its probes. `answer`: bytes, and what comes after them."""

    def __init__(self):
        self.answer, self.then = b"", Then.CLOSE
        self.asked = 0
        """POSTs whose body has come."""
        self.left = 0
        """POSTs whose connection the gateway closed."""
        self.port, self._server, self._writers = 0, None, set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def start(self):
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _connection(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass
        self._writers.discard(writer)
        writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if not head.startswith("post"):
            found = {"object": "list", "data": [{"id": "m"}]} if "/models" in head.split("\r\n")[0] else {}
            status = b"404 X" if head.startswith("get /info") else b"200 OK"
            body = json.dumps(found).encode()
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))
            return True
        length = next(line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length"))
        await reader.readexactly(int(length))
        self.asked += 1
        writer.write(self.answer)
        await writer.drain()
        if self.then is Then.HANG:
            while await reader.read(1024):
                pass
            self.left += 1
        elif self.then is Then.RESET:
            writer.transport.abort()
        return False
