"""Translated dialects through a running gateway: whole, streamed, refused, broken, silent."""

from __future__ import annotations

import asyncio
import json

import pytest

pytestmark = pytest.mark.anyio

RESPONSES = ("/v1/responses", {"model": "m", "input": "hi"})
MESSAGES = ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
USAGE = {"prompt_tokens": 30, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 20}}
WHOLE = {"object": "chat.completion", "usage": USAGE}
WHOLE["choices"] = [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 100 tokens. However, your messages resulted in 120 tokens.",
        "code": "context_length_exceeded",
        "type": "invalid_request_error",
        "param": "messages",
    }
}


def delta(finish=None, **said):
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


LAST = b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n"


def events(text):
    """(event, data) of each server-sent event."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


@pytest.fixture(params=[RESPONSES, MESSAGES], ids=lambda param: param[0])
def ask(request):
    return request.param


async def test_a_whole_answer(engine, gateway, ask):
    path, body = ask
    upstream = await engine()

    async def behave(request):
        await request.json(WHOLE, headers=upstream.headers)

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.http.post(path, json=body)
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert "Yes." in answer.text
    assert upstream.seen[-1].path == "/v1/chat/completions"
    assert answer.headers["x-sapwood-replica"] == upstream.url
    assert await front.metric("cached_tokens_total") == 20


async def test_a_stream(engine, gateway, ask):
    path, body = ask
    upstream = await engine()

    async def behave(request):
        await request.sse_head(upstream.headers)
        for piece in (delta(role="assistant", content=""), delta(content="Ye"), delta("stop", content="s."), LAST):
            for half in (piece[:9], piece[9:]):
                await request.sse_piece(half)
        await request.sse_end()

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.http.post(path, json={**body, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-length" not in answer.headers
    seen = events(answer.text)
    assert seen[-1][0] in ("response.completed", "message_stop")
    assert json.loads(upstream.seen[-1].body)["stream_options"] == {"include_usage": True}


async def test_the_next_turn_goes_home_whatever_dialect_it_speaks(engine, gateway):
    """Chat is the language in the middle: one conversation, one chain of prefixes."""
    one, two = await engine(), await engine()
    front = await gateway(one, two)
    first = await front.chat([{"role": "user", "content": "hi"}])
    home = first.headers["x-sapwood-replica"]
    items = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "?"},
    ]
    again = await front.http.post("/v1/responses", json={"model": "m", "input": items})
    assert again.headers["x-sapwood-replica"] == home
    assert await front.metric("placements_total", reason="binding") == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_that_refuses(engine, gateway, ask, stream):
    path, body = ask
    upstream = await engine()

    async def behave(request):
        await request.json({"error": {"message": "no such thing", "code": "odd"}}, 422, upstream.headers)

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.http.post(path, json={**body, "stream": stream})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "no such thing"


async def test_a_context_that_is_too_long_fails_a_responses_stream_in_its_own_way(engine, gateway):
    upstream = await engine()

    async def behave(request):
        await request.json(OVERFLOW, 400, upstream.headers)

    upstream.behave = behave
    front = await gateway(upstream)
    path, body = RESPONSES
    whole = await front.http.post(path, json=body)
    assert (whole.status_code, whole.json()["error"]["code"]) == (400, "context_length_exceeded")
    streamed = await front.http.post(path, json={**body, "stream": True})
    assert streamed.status_code == 200
    name, last = events(streamed.text)[-1]
    assert name == "response.failed"
    assert last["response"]["error"]["code"] == "context_length_exceeded"


async def test_a_replica_that_dies_in_mid_stream(engine, gateway, ask):
    path, body = ask
    upstream = await engine()

    async def behave(request):
        await request.sse_head(upstream.headers)
        await request.sse_piece(delta(content="Ye"))
        request.cut()

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.http.post(path, json={**body, "stream": True})
    assert events(answer.text)[-1][0] in ("response.failed", "error")


async def test_signs_of_life_that_clients_count(engine, gateway, ask):
    path, body = ask
    upstream, go_on = await engine(), asyncio.Event()

    async def behave(request):
        await go_on.wait()
        await request.sse_head(upstream.headers)
        await request.sse_piece(delta("stop", content="Yes.") + LAST)
        await request.sse_end()

    upstream.behave = behave
    front = await gateway(upstream, heartbeat_s=0.02)
    async with front.http.stream("POST", path, json={**body, "stream": True}) as answer:
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if text.count("response.in_progress") + text.count("event: ping") > 3:
                go_on.set()
    seen = [name for name, _ in events(text)]
    assert seen.count("response.created") + seen.count("message_start") == 1
    assert seen[-1] in ("response.completed", "message_stop")


async def test_bodies_that_are_nothing(engine, gateway, ask):
    path, _ = ask
    front = await gateway(await engine())
    for raw in (b"{", b"[]", b"\xff", b"{}", b'{"model": "m", "input": 3, "messages": 3, "max_tokens": "x"}'):
        answer = await front.http.post(path, content=raw)
        assert answer.status_code == 400, raw
        assert answer.json()["error"]["message"]


async def test_tokens_are_counted_by_the_upstream_or_estimated(engine, gateway):
    upstream = await engine()

    async def behave(request):
        known = json.loads(request.body)["model"] == "m"
        await request.json({"count": 41} if known else {"error": "no"}, 200 if known else 404, upstream.headers)

    upstream.behave = behave
    front = await gateway(upstream)
    body = MESSAGES[1]
    counted = await front.http.post("/v1/messages/count_tokens", json=body)
    assert counted.json() == {"input_tokens": 41}
    assert upstream.seen[-1].path == "/tokenize"
    guessed = await front.http.post("/v1/messages/count_tokens", json={**body, "model": "other"})
    assert guessed.json()["estimated"] is True
    assert guessed.json()["input_tokens"] > 5


async def test_what_anthropic_clients_ask_on_the_way(engine, gateway):
    front = await gateway(await engine())
    assert (await front.http.head("/")).status_code == 200
    upstream_error = await front.http.post("/v1/messages?beta=true", json={"model": "m"})
    assert upstream_error.json()["type"] == "error"
