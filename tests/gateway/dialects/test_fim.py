"""Fill-in-the-middle for clients that ask Mistral's way."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.anyio
ASK = {"model": "m", "prompt": "def add(a, b):\n    return ", "suffix": "\n", "max_tokens": 4, "stop": None}
CHOICE = {"index": 0, "text": "a + b", "finish_reason": "stop", "logprobs": None}


async def test_a_whole_answer(engine, gateway):
    upstream = await engine()

    async def behave(request):
        await request.json({"id": "cmpl-1", "object": "text_completion", "choices": [CHOICE]}, headers=upstream.headers)

    upstream.behave = behave
    door = await gateway(upstream)
    answer = (await door.http.post("/v1/fim/completions", json=ASK)).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "a + b"}
    seen = upstream.seen[-1]
    assert seen.path == "/v1/completions"
    assert json.loads(seen.body) == {key: value for key, value in ASK.items() if value is not None}


async def test_a_stream_of_deltas(engine, gateway):
    upstream = await engine()

    async def behave(request):
        await request.sse_head(upstream.headers)
        for text, finish in (("a +", None), (" b", "stop")):
            piece = {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}
            await request.sse_piece(b"data: " + json.dumps(piece).encode() + b"\n\n")
        await request.sse_piece(b'data: {"choices": [], "usage": {"prompt_tokens": 3}}\n\ndata: [DONE]\n\n')
        await request.sse_end()

    upstream.behave = behave
    door = await gateway(upstream)
    answer = await door.http.post("/fim/completions", json={**ASK, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks if c["choices"]) == "a + b"
    assert chunks[-1]["usage"] == {"prompt_tokens": 3}


@pytest.mark.parametrize(("field", "value"), [("prompt", 1), ("suffix", ["x"])])
async def test_what_is_no_text(engine, gateway, field, value):
    door = await gateway(await engine())
    answer = await door.http.post("/v1/fim/completions", json={**ASK, field: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


async def test_an_upstream_that_refuses(engine, gateway):
    upstream = await engine()

    async def behave(request):
        error = {"error": {"message": "can't", "code": "unsupported_parameter", "param": "suffix"}}
        await request.json(error, 400, upstream.headers)

    upstream.behave = behave
    door = await gateway(upstream)
    answer = await door.http.post("/v1/fim/completions", json=ASK)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unsupported_parameter"
