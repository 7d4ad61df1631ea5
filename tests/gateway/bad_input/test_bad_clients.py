"""Clients that send too much or too slowly, or don't read: cut, with an answer where one can be given; memory flat."""

from __future__ import annotations

import asyncio
import json
import resource

import pytest

from gateway.config import GatewayConfig
from tests.gateway.bad_input.shapes import PATHS, STREAMING, balanced, body_of, check_error, read_answer

pytestmark = pytest.mark.anyio

MIB = 2**20


async def connect(front, data):
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(data)
    return reader, writer


def head(path, *lines):
    return "\r\n".join([f"POST {path} HTTP/1.1", "host: x", *lines, "", ""]).encode()


@pytest.mark.parametrize("path", PATHS)
async def test_a_large_body_is_refused_before_it_is_read(engine, gateway, eventually, path):
    upstream = await engine()
    front = await gateway(upstream, max_body_bytes=MIB)
    reader, writer = await connect(front, head(path, f"content-length: {100 * MIB}"))
    begun = await reader.readuntil(b"\r\n\r\n")
    assert begun.startswith(b"HTTP/1.1 413 ")
    length = int(begun.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    check_error(path, await reader.readexactly(length))
    writer.close()
    assert not upstream.seen
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("announced", [True, False])
async def test_a_hundred_megabytes_leave_memory_flat(engine, gateway, eventually, announced):
    upstream = await engine()
    front = await gateway(upstream, max_body_bytes=MIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    piece = b"x" * MIB
    lines = [f"content-length: {100 * MIB}"] if announced else ["transfer-encoding: chunked"]
    reader, writer = await connect(front, head("/v1/chat/completions", *lines))
    for _ in range(100):
        writer.write(piece if announced else b"%x\r\n%s\r\n" % (MIB, piece))
        await writer.drain()
    writer.write(b"" if announced else b"0\r\n\r\n")
    status, _, body = await read_answer(reader)
    writer.close()
    assert (status, check_error("/v1/chat/completions", body)) == (413, "body_too_large")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024
    await eventually(lambda: balanced(front, upstream))


BOMBS = {
    "one long header": head("{}", "x-bomb: " + "y" * 200_000),
    "many headers": head("{}", *(f"x-{n}: y" for n in range(20_000))),
    "many empty headers": head("{}", *("a:" for _ in range(20_000))),
    "a header without end": head("{}")[:-2] + b"x-bomb: " + b"y" * 600_000,
    "a name without end": head("{}")[:-2] + b"y" * 600_000,
    "a long query": head("{}?" + "q" * 200_000),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("path", PATHS)
async def test_header_bombs(engine, gateway, path, bomb):
    upstream = await engine()
    front = await gateway(upstream)
    reader, writer = await connect(front, BOMBS[bomb].replace(b"{}", path.encode()))
    status, headers, body = await read_answer(reader)
    writer.close()
    assert (status, headers["connection"]) == (431, "close")
    if bomb.startswith(("one", "many")):
        check_error(path, body)
    assert not upstream.seen
    assert (await front.http.post(path, content=body_of(path))).status_code == 200


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"]
)
async def test_what_is_no_http(engine, gateway, said):
    front = await gateway(await engine())
    reader, writer = await connect(front, said)
    status, _, body = await read_answer(reader)
    writer.close()
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_http")


async def test_a_head_that_does_not_come(engine, gateway):
    front = await gateway(await engine(), client_timeout_s=0.2)
    reader, writer = await connect(front, b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n")
    status, _, body = await read_answer(reader)
    writer.close()
    assert status == 408
    check_error("/v1/messages", body)
    reader, writer = await connect(front, b"")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_does_not_come(engine, gateway, eventually, path):
    upstream = await engine()
    front = await gateway(upstream, client_timeout_s=0.2)
    reader, writer = await front.send_raw(b"{", path, length=500)
    begun = await reader.readuntil(b"\r\n\r\n")
    assert begun.startswith(b"HTTP/1.1 408 ")
    writer.close()
    assert not upstream.seen
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("path", STREAMING)
async def test_a_client_that_does_not_read_is_cut_and_holds_back_its_upstream(engine, gateway, eventually, path):
    upstream = await engine()
    sent = 0

    async def behave(request):
        nonlocal sent
        await request.sse_head(upstream.headers)
        data = {"choices": [{"index": 0, "text": "x" * 60_000, "delta": {"content": "x" * 60_000}}]}
        event = b"data: " + json.dumps(data).encode() + b"\n\n"
        while True:
            request.writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await request.writer.drain()
            sent += len(event)

    upstream.behave = behave
    front = await gateway(upstream, client_timeout_s=0.3)
    _, writer = await front.send_raw(body_of(path, stream=True), path)
    writer.transport.pause_reading()
    await eventually(lambda: upstream.seen)
    await eventually(lambda: balanced(front, upstream), "the end of what nobody reads")
    assert sent < 64 * MIB
    assert await front.metric("client_disconnects_total", route=path) == 1
    writer.close()


@pytest.mark.parametrize("path", PATHS)
async def test_only_so_many_at_once(engine, gateway, eventually, path):
    upstream = await engine()
    upstream.behave = upstream.hang
    front = await gateway(upstream, max_streams=2, max_streams_per_key=1)
    a, b, c = ({"authorization": f"Bearer {name}"} for name in "abc")
    held = [asyncio.create_task(front.http.post(path, content=body_of(path), headers=who)) for who in (a, b)]
    await eventually(lambda: upstream.waiting == 2)
    for who, status in ((a, 503), (c, 503)):
        answer = await front.http.post(path, content=body_of(path), headers=who)
        assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (status, True)
        check_error(path, answer.content, status)
    held[1].cancel()
    await eventually(lambda: upstream.waiting == 1)
    assert (await front.http.post(path, content=body_of(path), headers=a)).status_code == 429
    upstream.behave = upstream.answer
    assert (await front.http.post(path, content=body_of(path), headers=c)).status_code == 200
    held[0].cancel()
    await asyncio.gather(*held, return_exceptions=True)
    await eventually(lambda: balanced(front, upstream))


async def test_web_pages_are_let_in_by_name_only(engine, gateway):
    upstream = await engine()
    closed, open_to_one = await gateway(upstream), await gateway(upstream, cors_origins=("https://a.example",))
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for front, origin, allowed in (
        (closed, "https://a.example", None),
        (open_to_one, "https://a.example", "https://a.example"),
        (open_to_one, "https://b.example", None),
    ):
        before = await front.http.options("/v1/chat/completions", headers={"origin": origin, **asked})
        assert before.headers.get("access-control-allow-origin") == allowed
        assert before.is_success == (allowed is not None)
        answer = await front.chat([], {"origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed


def test_loopback_unless_told():
    assert GatewayConfig(upstreams=("http://127.0.0.1:1",)).host == "127.0.0.1"
