"""The load on a gateway: requests one after the other for the first byte, and many streams at once for the rest."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from benchmarks.client import BenchmarkError
from benchmarks.gateway_upstream import CHUNKS, MODEL

PATH = "/v1/chat/completions"
WORDS = ["reads", "each", "line", "of", "this", "file", "and", "then", "returns", "what", "was", "found", "there"]
TIMEOUT_S = 60.0


def session_bodies(seed: int, kilobytes: int, turns: int) -> Iterator[bytes]:
    """An agent's session from the turn on at which its history has so many kB: each turn extends the one before."""
    source = random.Random(seed)
    tool = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": _text(source, 400), "parameters": tool}}
        for n in range(12)
    ]
    messages: list[dict[str, object]] = [
        {"role": "system", "content": _text(random.Random(0), 8000)},
        {"role": "user", "content": _text(source, 500)},
    ]
    while len(body := _body(messages, tools)) < kilobytes * 1000:
        messages += _step(source, len(messages))
    for _ in range(turns):
        yield body
        messages += _step(source, len(messages))
        body = _body(messages, tools)


def small_body(seed: int) -> bytes:
    return _body([{"role": "user", "content": _text(random.Random(seed), 1000)}], [])


def _step(source: random.Random, number: int) -> list[dict[str, object]]:
    """A tool call and its result."""
    arguments = json.dumps({"path": f"src/module_{number}.py", "text": _text(source, 200)})
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "tool_3", "arguments": arguments}}
    return [
        {"role": "assistant", "content": _text(source, 200), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": _text(source, 1500)},
    ]


def _text(source: random.Random, size: int) -> str:
    return " ".join(source.choices(WORDS, k=size // 5))


def _body(messages: Sequence[object], tools: Sequence[object]) -> bytes:
    extra = {"tools": tools} if tools else {}
    asked = {"model": MODEL, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(asked | extra).encode()


class Reading:
    """An answer as it comes in."""

    def __init__(self) -> None:
        self.first: float | None = None
        """When the first byte of its body was there."""
        self.whole = False
        self.body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if self.first is None:
            self.first = time.perf_counter()
        self.body.append(body)

    def on_message_complete(self) -> None:
        self.whole = True

    def check(self) -> int:
        """The chunks of a good stream. BenchmarkError if it is none."""
        body = b"".join(self.body)
        status = self._parser.get_status_code()
        chunks = body.count(b"data: {")
        if status != 200 or not body.rstrip().endswith(b"data: [DONE]") or chunks < CHUNKS:
            raise BenchmarkError(f"status {status}, {chunks} chunks, ending {body[-200:]!r}")
        return chunks


class OneByOne:
    """A kept connection on which one request is made at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._socket = _connect(url)

    def ttft(self, body: bytes) -> float:
        """Seconds from sending a request to the first byte of its answer's body; all of it is read."""
        reading = Reading()
        began = time.perf_counter()
        self._socket.sendall(_request(self._url, body))
        while not reading.whole:
            # Where a gateway waits for an acknowledgement between head and body, it is not to wait for a timer's.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            data = self._socket.recv(2**16)
            if not data:
                raise BenchmarkError(f"{self._url} closed the connection")
            reading.feed(data)
        reading.check()
        assert reading.first is not None
        return reading.first - began

    def close(self) -> None:
        self._socket.close()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _connect(url: str) -> socket.socket:
    made = socket.create_connection(_address(url), TIMEOUT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _request(url: str, body: bytes) -> bytes:
    head = f"POST {PATH} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\ncontent-type: application/json\r\n"
    return f"{head}authorization: Bearer none\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@dataclass(frozen=True)
class Streamed:
    streams: int
    chunks: int
    seconds: float
    errors: tuple[str, ...]


class _Client(asyncio.Protocol):
    """A kept connection that has one stream at a time, one after the other until it is told to stop."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self._request = request
        self._tally = tally
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection was closed ({error})")

    def data_received(self, data: bytes) -> None:
        try:
            self._reading.feed(data)
            if not self._reading.whole:
                return
            self._tally.chunks += self._reading.check()
        except (BenchmarkError, httptools.HttpParserError) as error:
            self._end(str(error))
            return
        self._tally.streams += 1
        if self._tally.over:
            self._end(None)
        else:
            self._begin()

    def _begin(self) -> None:
        self._reading = Reading()
        self._transport.write(self._request)

    def _end(self, error: str | None) -> None:
        if self.ended.done():
            return
        if error is not None:
            self._tally.errors.append(error)
        self.ended.set_result(None)
        self._transport.close()


class Tally:
    def __init__(self) -> None:
        self.streams = 0
        self.chunks = 0
        self.errors: list[str] = []
        self.over = False


async def stream_for(url: str, at_once: int, seconds: float, tally: Tally) -> Streamed:
    """So many streams at once, each followed by the next, for so long; those under way then are read to their end."""
    loop = asyncio.get_running_loop()
    host, port = _address(url)
    began = loop.time()
    clients = []
    for number in range(at_once):
        request = _request(url, small_body(number))
        _, client = await loop.create_connection(lambda sent=request: _Client(sent, tally), host, port)  # type: ignore[misc]
        clients.append(client)
    loop.call_at(began + seconds, setattr, tally, "over", True)
    await asyncio.wait_for(asyncio.gather(*(client.ended for client in clients)), seconds + TIMEOUT_S)
    return Streamed(tally.streams, tally.chunks, loop.time() - began, tuple(tally.errors))
