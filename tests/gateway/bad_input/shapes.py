"""What all tables share: a good request of each dialect, the shape of its errors, and that every counter is back."""

from __future__ import annotations

import asyncio
import json

SAID = [{"role": "user", "content": "hi"}]
GOOD = {
    "/v1/chat/completions": {"model": "m", "messages": SAID},
    "/v1/completions": {"model": "m", "prompt": "hi"},
    "/v1/fim/completions": {"model": "m", "prompt": "a = ", "suffix": "\n"},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": SAID},
    "/v1/messages/count_tokens": {"model": "m", "messages": SAID},
    "/v1/embeddings": {"model": "m", "input": "hi"},
}
PATHS = list(GOOD)
STREAMING = PATHS[:5]
VERBATIM = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]


def body_of(path, stream=False, **fields):
    return json.dumps({**GOOD[path], **({"stream": True} if stream else {}), **fields}).encode()


def check_error(path, payload, status=None):
    """An error as the clients of this path parse it; its code or type."""
    said = json.loads(payload)
    if path.startswith("/v1/messages"):
        assert said["type"] == "error", said
        assert isinstance(said["error"]["message"], str)
        return said["error"]["type"]
    assert said["error"].keys() == {"message", "type", "param", "code"}, said
    assert isinstance(said["error"]["message"], str)
    if status is not None:
        assert said["error"]["type"] == ("server_error" if status >= 500 else said["error"]["type"])
    return said["error"]["code"]


def events_in(text):
    """(event, data) of each server-sent event; a stream that ends within one has it too."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if fields:
            found.append((fields.get("event"), fields.get("data", "")))
    return found


def failures_in(path, text):
    """The events of a stream by which it says that it failed."""
    found = []
    for name, data in events_in(text):
        try:
            said = json.loads(data)
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        by_name = name in ("error", "response.failed")
        if by_name or (name is None and isinstance(said.get("error"), dict)):
            found.append((name, said))
    return found


async def balanced(front, *upstreams):
    """Nothing is under way any more, nowhere."""
    for upstream in upstreams:
        replica = await front.replica(upstream.url)
        if (replica["in_flight"], replica["waiting_tokens"]) != (0, 0):
            return False
    names = ("in_flight", "streams", "queue_waiting")
    return not any([await front.metric(name) for name in names])


async def read_answer(reader):
    """Status, headers and body of one answer on a raw socket, up to its own end or the connection's."""
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if length := headers.get("content-length"):
        try:
            body = await reader.readexactly(int(length))
        except asyncio.IncompleteReadError as error:
            body = error.partial
    else:
        body = unchunked(await reader.read())
    return int(first.split(" ")[1]), headers, body


def unchunked(data):
    """The bytes in chunks that may break off anywhere."""
    found = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size or b"0", 16)
        found, data = found + rest[:length], rest[length + 2 :]
    return found
