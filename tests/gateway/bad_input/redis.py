"""A Redis that misbehaves: it answers each command with bytes that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib

READ_ONLY = b"-READONLY You can't write against a read only replica.\r\n"
OUT_OF_MEMORY = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
NO_AUTH = b"-NOAUTH Authentication required.\r\n"
GARBAGE = b"HTTP/1.1 400 Bad Request\r\n\r\n"
WRONG_TYPE = b":7\r\n"
HALF = b"$100\r\nhalf of it"
NONSENSE = b"*2\r\n$3\r\nabc\r\n*1\r\n:1\r\n"
ENDLESS = b"$99999999999999999999\r\n"


class FakeRedis:
    """`reply`: for every command but PING, which gets `pong`. None closes the connection in mid-command."""

    def __init__(self, reply, pong=b"+PONG\r\n"):
        self.reply, self.pong = reply, pong
        self.asked = 0
        self._server, self._writers = None, set()

    async def start(self):
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def stop(self):
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _connection(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            while answer := await self._answer(reader):
                writer.write(answer)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, reader):
        count = int((await reader.readuntil(b"\r\n"))[1:])
        words = []
        for _ in range(count):
            size = int((await reader.readuntil(b"\r\n"))[1:])
            words.append((await reader.readexactly(size + 2))[:-2])
        if words[0].upper() == b"PING":
            return self.pong
        if words[0].upper() == b"CLIENT":
            return b"+OK\r\n"
        self.asked += 1
        return self.reply
