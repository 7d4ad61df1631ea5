"""`sapwood up --replicas 2` as a client sees it: every turn after the first comes from the cache."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import httpx
import jsonschema
import openai
import pytest

from agents.stack import SAPWOOD

TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


@pytest.fixture(scope="module")
def stack(smollm2_path):
    up = subprocess.Popen(
        [*SAPWOOD, "up", "--model", str(smollm2_path), "--replicas", "2", "--port", "0", "--kv-tokens", "20000"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield re.match(r"sapwood up ready at (\S+)", up.stdout.readline()).group(1)
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=20)


@pytest.fixture
def client(stack):
    with openai.OpenAI(base_url=f"{stack}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_turns_two_to_four_are_cached_up_to_the_last_generated_token(client, model):
    messages = [{"role": "system", "content": "You are a careful programmer. " * 20}]
    before = None
    for turn in range(4):
        messages.append({"role": "user", "content": f"Question {turn}: what does line {turn} of a program do?"})
        reply = client.chat.completions.create(
            model=model, messages=messages, max_tokens=24, temperature=0.8, seed=turn
        )
        usage, answer = reply.usage, reply.choices[0].message
        if before is not None:
            assert usage.prompt_tokens_details.cached_tokens >= before - 1
        before = usage.prompt_tokens + usage.completion_tokens
        messages.append({"role": "assistant", "content": answer.content})


def test_tool_calls_in_the_history_are_cached_too(client, model):
    messages = [{"role": "user", "content": "What is in notes.txt?"}]
    options = {"model": model, "tools": [TOOL], "max_tokens": 40, "temperature": 0, "parallel_tool_calls": False}
    first = client.chat.completions.create(messages=messages, tool_choice="required", **options)
    (call,) = first.choices[0].message.tool_calls
    jsonschema.validate(json.loads(call.function.arguments), TOOL["function"]["parameters"])
    messages.append(first.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "milk, eggs"})
    second = client.chat.completions.create(messages=messages, **options)
    known = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.prompt_tokens_details.cached_tokens >= known - 1


def test_streams(client, model):
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Count to three."}],
        max_tokens=16,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert chunks[-1].usage.total_tokens > 0


def test_json_schema(client, model):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    reply = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Give me a number."}],
        max_tokens=40,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
    )
    jsonschema.validate(json.loads(reply.choices[0].message.content), schema)


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[]", b"[" * 1_000_000])
def test_a_mangled_body_gets_a_clean_400(stack, raw):
    reply = httpx.post(f"{stack}/v1/chat/completions", content=raw)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_json"


def test_errors_of_the_engine_pass_unchanged(client):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.chat.completions.create(model=None, messages=[{"role": "user", "content": "word " * 20_000}])
