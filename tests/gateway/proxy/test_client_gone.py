"""The client leaves: the upstream's work ends within a second, and nothing is left counted."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "long enough to count as recent work " * 100}]


def body(stream):
    return json.dumps({"model": "m", "messages": USER, "stream": stream}).encode()


async def check_released(front, upstream, eventually):
    start = time.monotonic()
    await eventually(lambda: upstream.left_by_client == 1, "the upstream connection's end")
    assert time.monotonic() - start < 1.0

    async def balanced():
        replica = await front.replica(upstream.url)
        return (replica["in_flight"], replica["waiting_tokens"]) == (0, 0)

    await eventually(balanced, "the counters' return")
    assert await front.metric("client_disconnects_total") == 1
    assert await front.metric("in_flight") == 0
    assert (await front.replica(upstream.url))["state"] == "healthy"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("abort", [True, False])
async def test_before_the_first_byte(engine, gateway, eventually, stream, abort):
    upstream = await engine()
    upstream.behave = upstream.hang
    front = await gateway(upstream)
    _, writer = await front.send_raw(body(stream))
    await eventually(lambda: upstream.waiting, "the request's arrival")
    assert (await front.replica(upstream.url))["in_flight"] == 1
    writer.transport.abort() if abort else writer.close()
    await check_released(front, upstream, eventually)


@pytest.mark.parametrize("stream", [True, False])
async def test_after_the_first_byte(engine, gateway, eventually, stream):
    upstream = await engine()

    async def behave(request):
        if stream:
            await request.sse_head(upstream.headers)
            await request.sse_piece(b"data: 1\n\n")
        else:
            request.writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\nx-sapwood-epoch: boot-1\r\n\r\n{"cho')
        await upstream.hang(request)

    upstream.behave = behave
    front = await gateway(upstream)
    reader, writer = await front.send_raw(body(stream))
    await reader.readuntil(b"1\n\n" if stream else b'{"cho')
    writer.transport.abort()
    await check_released(front, upstream, eventually)


async def test_affinity_is_kept(engine, gateway, eventually):
    """A client that hangs up in mid-stream and asks again finds the replica that computed its prefix."""
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams)

    def streaming(upstream):
        async def behave(request):
            await request.sse_head(upstream.headers)
            await request.sse_piece(b"data: 1\n\n")
            await upstream.hang(request)

        return behave

    for upstream in upstreams:
        upstream.behave = streaming(upstream)
    reader, writer = await front.send_raw(body(True))
    await reader.readuntil(b"1\n\n")
    writer.close()
    await eventually(lambda: sum(u.left_by_client for u in upstreams) == 1)
    home = next(u for u in upstreams if u.seen)
    home.behave = home.answer
    await front.chat(USER)
    assert len(home.seen) == 2


async def test_leaving_while_the_body_is_sent(engine, gateway, eventually):
    upstream = await engine()
    front = await gateway(upstream)
    _, writer = await front.send_raw(b"{", length=500)
    writer.close()

    async def counted():
        return await front.metric("client_disconnects_total") == 1

    await eventually(counted)
    assert not upstream.seen
