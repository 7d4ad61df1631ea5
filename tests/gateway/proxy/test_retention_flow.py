"""From the reply that calls a tool to the next turn, through the running gateway."""

from __future__ import annotations

import json

import pytest

from gateway.proxy.called import called_in_object, called_in_stream
from gateway.proxy.usage import STREAM_TAIL_BYTES, UsageTap

pytestmark = pytest.mark.anyio
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "run_tests", "arguments": ""}}
FIRST = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}}]}).encode() + b"\n\n"


def test_calls_are_found_in_streams_and_objects():
    assert called_in_stream(FIRST + b"data: [DONE]\n\n") == ["run_tests"]
    assert called_in_stream(b'data: {"choices": [{"delta": {"content": "tool_calls"}}]}\n\n') == []
    assert called_in_object(json.dumps({"choices": [{"message": {"tool_calls": [CALL, CALL]}}]}).encode()) == [
        "run_tests",
        "run_tests",
    ]
    for odd in (
        b'{"tool_calls"',
        b'{"choices": [{"message": {"tool_calls": {"a": 1}}}]}',
        b'{"choices": 3, "tool_calls": 1}',
    ):
        assert called_in_object(odd) == []


def test_a_call_longer_than_what_is_kept_is_still_known():
    tap = UsageTap("text/event-stream")
    for piece in (FIRST, *[b"data: " + b"x" * 1000 + b"\n\n"] * (2 * STREAM_TAIL_BYTES // 1000)):
        tap.feed(piece)
    assert tap.called() == ["run_tests"]


@pytest.mark.parametrize("stream", [True, False])
async def test_the_home_replica_is_asked(engine, gateway, eventually, stream):
    home = await engine(offers=["retain", "session"])

    async def behave(request):
        if request.path.startswith("/cache/"):
            await request.json({})
        elif stream:
            await request.sse_head(home.headers)
            await request.sse_piece(FIRST)
            await request.sse_piece(b"data: [DONE]\n\n")
            await request.sse_end()
        else:
            call = {"message": {"tool_calls": [CALL]}}
            await request.json({"choices": [call], "usage": {"prompt_tokens": 9}}, headers=home.headers)

    home.behave = behave
    door = await gateway(home)
    messages = [{"role": "user", "content": "go"}]
    sent = {"x-sapwood-retain": "42"}
    assert (await door.chat(messages, stream=stream, headers=sent)).status_code == 200
    await eventually(lambda: len(home.seen) == 2)
    turn, kept = home.seen
    assert kept.path == "/cache/retain"
    assert json.loads(kept.body) == {"session": turn.headers["x-sapwood-session"], "seconds": 42.0}
    assert kept.headers["x-sapwood-tenant"] == turn.headers["x-sapwood-tenant"]
    await eventually(lambda: door.metric("retentions_total", outcome="retained"))


@pytest.mark.parametrize("offers", [["ahead"], ["retain"], []])
async def test_engines_that_can_are_asked_to_compute_ahead(engine, gateway, offers):
    home = await engine(offers=offers)
    door = await gateway(home)
    await door.chat([{"role": "user", "content": "go"}], headers={"x-sapwood-ahead": "0"})
    assert home.seen[0].headers.get("x-sapwood-ahead") == ("1" if "ahead" in offers else None)
