"""Whatever a client sends, the answer is a 4xx in OpenAI's shape, and the next request is served."""

from __future__ import annotations

import json
import re

import pytest

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "hi"}]


def refused(reply, code, status=400, param=...):
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    if param is not ...:
        assert error["param"] == param
    return error["message"]


@pytest.fixture(autouse=True)
def still_serving(http):
    yield
    assert http.post(CHAT, json={"messages": USER, "max_tokens": 1}).status_code == 200


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"messages": []}, "invalid_value", "messages"),
        ({}, "missing_parameter", "messages"),
        ({"messages": [{"role": "wizard", "content": "hi"}]}, "invalid_value", ...),
        ({"messages": USER, "max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"messages": USER, "max_tokens": -5}, "invalid_value", "max_tokens"),
        ({"messages": USER, "max_tokens": "many"}, "invalid_value", "max_tokens"),
        ({"messages": USER, "temperature": -1}, "invalid_value", "temperature"),
        ({"messages": USER, "n": 0}, "invalid_value", "n"),
        ({"messages": USER, "tools": [{"type": "function", "function": {"name": "a b"}}]}, "invalid_value", ...),
        ({"messages": USER, "tool_choice": "required"}, "invalid_value", "tool_choice"),
        (
            {"messages": USER, "tools": [], "tool_choice": {"type": "function", "function": {"name": "f"}}},
            "invalid_value",
            "tool_choice",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
            "unsupported_content",
            ...,
        ),
    ],
)
def test_a_bad_field_is_named(http, body, code, param):
    refused(http.post(CHAT, json=body), code, param=param)


def test_what_cannot_both_be_enforced_is_refused(http):
    body = {"messages": USER, "max_tokens": 1, "response_format": {"type": "json_object"}}
    refused(http.post(CHAT, json={**body, "regex": "a+"}), "invalid_value", param="regex")
    tag = {"structured_outputs": {"structural_tag": {}}}
    refused(http.post(CHAT, json={**body, **tag}), "unsupported_parameter", param="structured_outputs.structural_tag")


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_structure_next_to_tools_is_no_contradiction(http, choice):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    body = {"messages": USER, "max_tokens": 1, "tools": tools, "response_format": {"type": "json_object"}}
    assert http.post(CHAT, json={**body, "tool_choice": choice}).status_code == 200


def test_biases_are_bounded(http):
    biases = {str(token): 1 for token in range(2000)}
    refused(http.post(CHAT, json={"messages": USER, "logit_bias": biases}), "invalid_value", param="logit_bias")
    few = {str(token): -100 for token in range(0, 60_000, 100)}
    assert http.post(CHAT, json={"messages": USER, "max_tokens": 1, "logit_bias": few}).status_code == 200


def test_unknown_model(http):
    message = refused(http.post(CHAT, json={"model": "gpt-9", "messages": USER}), "model_not_found", 404)
    assert "gpt-9" in message


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"not json",
        b"[]",
        b'"x"',
        b"\xff\xfe{}",
        b'{"messages": "\xe5"}',
        b"[" * 10_000_000,
        b'{"a":' * 2_000_000,
        '{"messages": [{"role": "user", "content": "hi"}]}'.encode("utf-16"),
        b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
    ],
    ids=[
        "empty",
        "open",
        "words",
        "list",
        "string",
        "not utf8",
        "cut",
        "nested list",
        "nested object",
        "utf16",
        "raw surrogate",
    ],
)
def test_a_body_that_is_no_json_object(http, raw):
    reply = http.post(CHAT, content=raw, headers={"content-type": "application/json"})
    refused(reply, "invalid_json")


def test_half_a_surrogate_pair(http):
    refused(http.post(CHAT, content=rb'{"messages":[{"role":"user","content":"\ud800"}]}'), "invalid_json")


def test_too_long_names_both_lengths(http, service):
    long = {"messages": [{"role": "user", "content": "word " * 20_000}]}
    message = refused(http.post(CHAT, json=long), "context_length_exceeded")
    assert f"maximum context length is {service.preparer.limits.longest} tokens" in message
    sent = len(service.preparer.tokenizer.encode("word " * 20_000))
    assert int(re.search(r"resulted in (\d+) tokens", message).group(1)) > sent


def test_what_cannot_fit_is_refused_without_tokenising_it(http, monkeypatch, service):
    monkeypatch.setattr(service.preparer.tokenizer, "encode", None)
    words = "word " * 1_000_000
    for path, body in (
        (CHAT, {"messages": [{"role": "user", "content": words}]}),
        ("/v1/completions", {"prompt": words}),
    ):
        message = refused(http.post(path, json=body), "context_length_exceeded", param=next(iter(body)))
        fewest = int(re.search(r"resulted in at least (\d+) tokens", message).group(1))
        assert service.preparer.limits.longest < fewest <= 1_000_010
    monkeypatch.undo()


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_is_a_status_even_for_a_stream(http, service, stream):
    body = {"prompt": ["a"] * (service.config.max_waiting + 1), "max_tokens": 1, "stream": stream}
    refused(http.post("/v1/completions", json=body), "queue_full", 429)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "object", "properties": 5},
        {"$ref": "#/nowhere"},
        {"type": "string", "pattern": "("},
    ],
)
def test_a_bad_schema_is_refused_before_anything_runs(http, schema):
    body = {
        "messages": USER,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
    }
    refused(http.post(CHAT, json=body), "invalid_schema")


def test_body_too_large(http):
    refused(http.post(CHAT, content=b" " * (33 * 1024 * 1024)), "body_too_large", 413)


def test_unknown_path_and_method(http):
    refused(http.get("/v1/nothing"), "not_found", 404)
    refused(http.get(CHAT), "method_not_allowed", 405)


def test_completions_too(http):
    refused(http.post("/v1/completions", json={"prompt": ""}), "invalid_value", param="prompt")
    refused(http.post("/v1/completions", json={"prompt": []}), "invalid_value", param="prompt")
    refused(http.post("/v1/completions", json={"prompt": [10**9]}), "invalid_value", param="prompt")
    refused(http.post("/v1/completions", json={"prompt": "x", "max_tokens": 0}), "invalid_value", param="max_tokens")


def test_bad_retention_header(http):
    body = {"messages": USER, "max_tokens": 1}
    refused(http.post(CHAT, json=body, headers={"x-sapwood-retain": "long"}), "invalid_value")


def test_errors_are_json_even_for_strange_tools(http):
    tools = [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "wat"}}}},
        }
    ]
    reply = http.post(CHAT, json={"messages": USER, "tools": tools, "max_tokens": 1})
    assert reply.status_code in (200, 400)
    json.loads(reply.text)
