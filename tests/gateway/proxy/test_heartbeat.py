"""While an upstream computes, a client that waits for a stream hears that it is still coming."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.proxy.heartbeat import Heartbeat

pytestmark = pytest.mark.anyio
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
BEAT = b": keep-alive\n\n"


async def read_until(reader, wanted):
    seen = b""
    while wanted not in seen:
        piece = await asyncio.wait_for(reader.read(65536), 8)
        assert piece, seen
        seen += piece
    return seen


async def test_comments_until_the_first_byte_then_the_stream_itself(engine, gateway):
    first, go_on = await engine(), asyncio.Event()

    async def behave(request):
        await go_on.wait()
        await request.sse_head()
        await request.sse_piece(b'data: {"n": 1}\n\n')
        await request.sse_piece(b"data: [DONE]\n\n")
        await request.sse_end()

    first.behave = behave
    door = await gateway(first, heartbeat_s=0.02)
    reader, writer = await door.send_raw(BODY)
    seen = await read_until(reader, BEAT)
    assert seen.startswith(b"HTTP/1.1 200")
    assert b"text/event-stream" in seen
    go_on.set()
    rest = await read_until(reader, b"0\r\n\r\n")
    assert b'data: {"n": 1}\n\n' in rest
    assert rest.count(b"HTTP/1.1") == 0
    writer.close()


@pytest.mark.parametrize(("status", "raw"), [(400, b'{"error": {"message": "no", "code": "bad"}}'), (500, b"oops")])
async def test_an_error_after_a_sign_of_life_is_an_event(engine, gateway, status, raw):
    first, go_on = await engine(), asyncio.Event()

    async def behave(request):
        await go_on.wait()
        await request.raw(raw, status)

    first.behave = behave
    door = await gateway(first, heartbeat_s=0.02)
    reader, writer = await door.send_raw(BODY)
    await read_until(reader, BEAT)
    go_on.set()
    rest = await read_until(reader, b"0\r\n\r\n")
    error = json.loads(rest.split(b"data: ")[1].split(b"\n\n")[0])["error"]
    assert error["code"] == ("bad" if status == 400 else "upstream_error")
    assert error["message"] == ("no" if status == 400 else "oops")
    writer.close()


async def test_no_replica_after_a_sign_of_life_is_an_event(engine, gateway):
    first, go_on = await engine(), asyncio.Event()

    async def behave(request):
        await go_on.wait()
        request.cut()

    first.behave = behave
    door = await gateway(first, heartbeat_s=0.02)
    reader, writer = await door.send_raw(BODY)
    await read_until(reader, BEAT)
    go_on.set()
    rest = await read_until(reader, b"0\r\n\r\n")
    assert json.loads(rest.split(b"data: ")[1].split(b"\n\n")[0])["error"]["code"] == "no_replica"
    writer.close()


async def test_a_client_that_waits_for_no_stream_hears_nothing(engine, gateway):
    first = await engine()
    beats = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, beats.set)

    async def behave(request):
        await beats.wait()
        await first.answer(request)

    first.behave = behave
    door = await gateway(first, heartbeat_s=0.02)
    answer = await door.chat([{"role": "user", "content": "hi"}])
    assert answer.json()["object"] == "chat.completion"


async def test_nothing_beats_after_the_end_or_while_something_is_heard():
    count = 0

    async def beat():
        nonlocal count
        count += 1

    loop = asyncio.get_running_loop()
    async with Heartbeat(0.05, beat) as heart:
        end = loop.time() + 0.2
        while loop.time() < end:
            heart.heard()
            await asyncio.sleep(0)
    assert count == 0
    async with Heartbeat(0.01, beat):
        while count < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    seen = count
    await asyncio.sleep(0.03)
    assert count == seen
