"""The chat endpoint as clients use it, on the real model."""

from __future__ import annotations

import json
import socket
import time

import jsonschema
import openai
import pytest

from engine.server.wire import ChatRequest

HELLO = [{"role": "user", "content": "Say hello."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def client(base_url):
    return openai.OpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0)


def chat(client, messages=HELLO, **options):
    options = {"temperature": 0, "max_tokens": 12, "seed": 1, **options}
    return client.chat.completions.create(model="smollm2", messages=messages, **options)


def events(http, body):
    with http.stream("POST", "/v1/chat/completions", json={"model": "smollm2", "stream": True, **body}) as reply:
        assert reply.status_code == 200
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_whole_and_streamed_answers_are_equal(client):
    whole = chat(client)
    streamed = list(chat(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in streamed if c.choices)
    assert text == whole.choices[0].message.content != ""
    assert streamed[-1].choices == []
    assert streamed[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [c.choices[0].finish_reason for c in streamed if c.choices][-1] == whole.choices[0].finish_reason


def test_cached_tokens_are_reported_also_when_zero(client):
    messages = [{"role": "system", "content": f"Unique {time.time_ns()}."}, *HELLO]
    first, second = (chat(client, messages, max_tokens=1).usage for _ in range(2))
    head = first.prompt_tokens_details.cached_tokens
    assert 0 <= head < first.prompt_tokens // 2
    assert second.prompt_tokens_details.cached_tokens == second.prompt_tokens - 1


def test_stream_obeys_the_rules_that_clients_depend_on(http):
    tools = {"messages": HELLO, "tools": [WEATHER], "tool_choice": "required", "max_tokens": 60}
    chunks = events(http, {**tools, "stream_options": {"include_usage": True}, "temperature": 0})
    *body, last = chunks
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] > 0
    assert all("usage" not in chunk for chunk in body)
    assert [c["choices"][0]["finish_reason"] for c in body][:-1] == [None] * (len(body) - 1)
    calls = [d for c in body for d in c["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert set(calls[0]) == {"index", "id", "type", "function"}
    assert all(set(call) == {"index", "function"} for call in calls[1:] if call["index"] == 0 and "id" not in call)
    for chunk in body:
        kinds = {key for key, value in chunk["choices"][0]["delta"].items() if key != "role" and value}
        assert len(kinds) <= 1


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_forced_call_is_valid_the_first_time(client, choice):
    reply = chat(
        client, [{"role": "user", "content": "Weather in Paris?"}], tools=[WEATHER], tool_choice=choice,
        max_tokens=80, parallel_tool_calls=False,
    )  # fmt: skip
    assert reply.choices[0].finish_reason == "tool_calls"
    (call,) = reply.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    jsonschema.validate(json.loads(call.function.arguments), WEATHER["function"]["parameters"])


def test_auto_may_answer_in_text(client):
    reply = chat(client, tools=[WEATHER], max_tokens=20)
    assert reply.choices[0].message.content or reply.choices[0].message.tool_calls


def test_json_schema_is_met_even_hot(client):
    for seed in range(3):
        reply = chat(
            client,
            [{"role": "user", "content": "Invent a person."}],
            temperature=1.5,
            seed=seed,
            max_tokens=80,
            response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}},
        )
        assert reply.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(reply.choices[0].message.content), PERSON)


def test_seed_decides_whatever_the_neighbours_do(client):
    options = {"temperature": 1.0, "seed": 7, "max_tokens": 10}
    alone = chat(client, **options).choices[0].message.content
    many = chat(client, **options, n=4).choices
    assert many[0].message.content == alone
    assert len({choice.message.content for choice in many}) > 1


def test_stop_strings_end_the_text_before_them(client):
    text = chat(client, max_tokens=20).choices[0].message.content
    stop = text[3:6]
    reply = chat(client, max_tokens=20, stop=[stop])
    assert reply.choices[0].message.content == text[: text.index(stop)]
    assert reply.choices[0].finish_reason == "stop"


def test_logprobs(client):
    entries = chat(client, max_tokens=4, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert len(entries) == 4
    for entry in entries:
        assert entry.token == entry.top_logprobs[0].token
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3


def test_string_and_one_part_content_are_the_same_prompt(client):
    parts = [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    assert chat(client).usage.prompt_tokens == chat(client, parts).usage.prompt_tokens


def test_completions_take_text_and_tokens(http):
    body = {"prompt": "def add(a, b):\n    return", "max_tokens": 5, "temperature": 0}
    text = http.post("/v1/completions", json=body).json()
    assert text["usage"]["completion_tokens"] == 5
    several = http.post("/v1/completions", json={**body, "prompt": [body["prompt"], "x"], "n": 2}).json()
    assert [choice["index"] for choice in several["choices"]] == [0, 1, 2, 3]
    assert several["choices"][0]["text"] == text["choices"][0]["text"]
    tokens = http.post("/v1/completions", json={**body, "prompt": [1, 2, 3]}).json()
    assert tokens["usage"]["prompt_tokens"] == 3


def test_a_client_that_leaves_frees_the_engine(http, service, base_url):
    host, port = base_url.removeprefix("http://").split(":")
    for stream in (True, False):
        body = json.dumps({"messages": HELLO, "max_tokens": 4000, "stream": stream, "ignore_eos": True}).encode()
        with socket.create_connection((host, int(port))) as raw:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            raw.sendall(head.encode() + body)
            wait_until(lambda: service.engine.scheduler.running)
        wait_until(lambda: service.engine.scheduler.idle)
    assert http.get("/cache").json()["leases"] == 0


def test_what_the_gateway_asks(http, service):
    info = http.get("/info").json()
    assert info["epoch"] == service.epoch == http.get("/ready").json()["epoch"]
    assert 134e6 < info["parameters"] < 135e6
    assert http.get("/health").json() == {"status": "ok"}
    chat_body = {"model": "smollm2", "messages": HELLO, "max_tokens": 1}
    assert http.post("/v1/chat/completions", json=chat_body).headers["x-sapwood-epoch"] == service.epoch
    assert http.post("/cache/retain", json={**chat_body, "seconds": 5}).json()["retained_tokens"] > 0
    assert http.post("/cache/release", json=chat_body).json()["released_tokens"] > 0
    assert http.get("/cache/tree").json()
    assert "sapwood_engine_cached_tokens_total" in http.get("/metrics").text
    assert http.get("/v1/models").json()["data"][0]["id"] == "smollm2"


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


def test_null_is_the_default_of_every_field(http):
    names = {*ChatRequest.model_fields} - {"messages", "stream_options", "max_tokens"}
    body = {"messages": HELLO, "max_tokens": 1, **dict.fromkeys(names)}
    assert http.post("/v1/chat/completions", json=body).status_code == 200
    body |= {"stream": True, "stream_options": {"include_usage": None}}
    reply = http.post("/v1/chat/completions", json=body)
    assert reply.text.endswith("data: [DONE]\n\n")
    assert '"usage"' not in reply.text


def test_a_completion_stream_has_its_logprobs(http):
    body = {"prompt": "Once upon a", "max_tokens": 4, "temperature": 0, "logprobs": 2}
    whole = http.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
    lines = http.post("/v1/completions", json={**body, "stream": True}).text.splitlines()
    chunks = [json.loads(line[6:])["choices"][0]["logprobs"] for line in lines if line.startswith("data: {")]
    assert len(whole["tokens"]) == 4
    assert [token for chunk in chunks if chunk for token in chunk["tokens"]] == whole["tokens"]
    assert [len(top) for chunk in chunks if chunk for top in chunk["top_logprobs"]] == [2] * 4
