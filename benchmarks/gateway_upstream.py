"""A server that streams and computes nothing: what gateways stand before when only they are to be measured.

    python -m benchmarks.gateway_upstream --pace 0

It prints its URLs, one a line, and serves until it is ended. Every POST is answered with a chat stream of 64 chunks and
its usage, each chunk in a write of its own; its other paths are what routers ask of a worker before they use it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator

import httptools

CHUNKS = 64
ADDRESSES = 2
"""It listens on two ports, so that a router has something to choose from."""
MODEL = "m"

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_TOLD = {
    "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "test"}]},
    "/get_model_info": {"model_path": MODEL, "is_generation": True},
    "/model_info": {"model_path": MODEL, "is_generation": True},
    "/get_server_info": {"model_path": MODEL, "served_model_name": MODEL},
    "/server_info": {"model_path": MODEL, "served_model_name": MODEL},
    "/health": {},
    "/health_generate": {},
}


def pieces() -> list[bytes]:
    """The stream, one piece for each write."""
    events = [_event({"content": f" word{n:04}"}, None) for n in range(CHUNKS - 1)]
    return [*map(_as_chunk, [*events, _last()]), b"0\r\n\r\n"]


class Exchange(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self, stream: list[bytes], pace_s: float) -> None:
        self._stream = stream
        self._pace_s = pace_s
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._next: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, _: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # a router that finds out whether this speaks HTTP/2
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_message_complete(self) -> None:
        if self._parser.get_method() != b"POST":
            self._tell()
            return
        self._transport.write(_HEAD + self._stream[0])
        self._say(iter(self._stream[1:]))

    def _say(self, left: Iterator[bytes]) -> None:
        """Each piece in a turn of the loop of its own, so that it leaves on its own."""
        piece = next(left, None)
        if piece is None:
            return
        self._next = self._loop.call_later(self._pace_s, self._say_next, piece, left)

    def _say_next(self, piece: bytes, left: Iterator[bytes]) -> None:
        self._transport.write(piece)
        self._say(left)

    def _tell(self) -> None:
        told = _TOLD.get(self._url.decode("latin-1").partition("?")[0])
        body = json.dumps({"error": "no such path"} if told is None else told).encode()
        status = b"404 Not Found" if told is None else b"200 OK"
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


def _event(delta: dict[str, str], finish: str | None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(chunk | more, separators=(",", ":")).encode() + b"\n\n"


def _last() -> bytes:
    details = {"cached_tokens": 19_000}
    usage = {
        "prompt_tokens": 20_000,
        "completion_tokens": CHUNKS,
        "total_tokens": 20_000 + CHUNKS,
        "prompt_tokens_details": details,
    }
    return _event({}, "stop", usage=usage) + b"data: [DONE]\n\n"


def _as_chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


async def _serve(pace_s: float) -> None:
    loop, stream = asyncio.get_running_loop(), pieces()
    for _ in range(ADDRESSES):
        server = await loop.create_server(lambda: Exchange(stream, pace_s), "127.0.0.1", 0, backlog=2048)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pace", type=float, default=0.0, help="milliseconds from chunk to chunk; 0 is at once")
    given = options.parse_args()
    import uvloop

    uvloop.run(_serve(given.pace / 1000))


if __name__ == "__main__":
    main()
