"""Requests: recorded ones, each field's translation, and that bad input is a 400 which names the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.responses.dialect import Responses
from gateway.errors import GatewayError
from tests.gateway.dialects.responses.speaking import ask

RECORDED = json.loads(Path(__file__).with_name("codex.json").read_text())
USER = {"role": "user", "content": "go"}
PARAMETERS = {"type": "object"}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
JSON = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
TYPES = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "item_reference"),
        *("input_text", "output_text", "input_image", "input_file", "input_audio", "refusal", "web_search_call"),
        *("function", "namespace", "custom", "allowed_tools", "json_schema", "grammar", "text"),
    ]
)
KEYS = st.sampled_from(
    [
        *("role", "content", "text", "summary", "encrypted_content", "name", "namespace", "arguments", "call_id", "id"),
        *("output", "input", "tools", "mode", "format", "schema", "image_url", "strict", "parameters", "effort"),
    ]
)
HINTS = st.sampled_from(["user", "assistant", "auto", "required", "f"])
SHAPES = st.recursive(
    JSON | HINTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda kind, rest: {**rest, "type": kind}, TYPES, st.dictionaries(KEYS, inner, max_size=4))
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
        *("include", "metadata", "store", "stream", "temperature", "top_p", "max_output_tokens", "user", "prompt"),
        *("background", "conversation", "previous_response_id", "top_logprobs", "prompt_cache_key", "unknown"),
    ]
)


def test_a_recorded_turn_of_codex():
    exchange = Responses().exchange(RECORDED)
    roles = [message["role"] for message in exchange.body["messages"]]
    assert roles == ["system", "system", "user", "user", "assistant", "tool"]
    names = [tool["function"]["name"] for tool in exchange.body["tools"]]
    assert len(names) == 12
    assert "multi_agent_v1__spawn_agent" in names
    assert exchange.body["messages"][4]["tool_calls"][0]["function"]["arguments"] == '{"cmd": "echo hi"}'
    assert exchange.stream
    assert exchange.body["stream_options"] == {"include_usage": True}
    assert exchange.body["prompt_cache_key"] == RECORDED["prompt_cache_key"]
    assert exchange.warnings == ("tool web_search dropped",)
    assert "client_metadata" not in exchange.body


def test_its_turns_extend_one_another():
    first = Responses().exchange(RECORDED | {"input": RECORDED["input"][:4]})
    second = Responses().exchange(RECORDED)
    assert second.body["messages"][:4] == first.body["messages"]
    assert second.body["tools"] == first.body["tools"]


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning_effort": "high"}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": PARAMETERS, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": PARAMETERS, "strict": True},
                }
            },
        ),
        ({"user": "u", "prompt_cache_key": "k", "metadata": {"a": "b"}}, {"user": "u", "prompt_cache_key": "k"}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False, "store": False, "background": False, "truncation": "auto", "unknown": [1]}, {}),
        (dict.fromkeys(("temperature", "tools", "tool_choice", "reasoning", "text", "include")), {}),
    ],
)
def test_fields(fields, chat):
    assert ask(**fields).body == {"model": "m", "messages": [USER], **chat}


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ("go", [USER]),
        ([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}], [USER]),
        ([{"role": "developer", "content": "d"}, USER], [{"role": "system", "content": "d"}, USER]),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": text} for text in "ab"]}],
            [{"role": "user", "content": [{"type": "text", "text": text} for text in "ab"]}],
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:x", "detail": "low"}]}],
            [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}],
                }
            ],
        ),
        (
            [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "out"}]}],
            [{"role": "tool", "tool_call_id": "c", "content": "out"}],
        ),
        (
            [{"type": "custom_tool_call_output", "call_id": "c", "output": "out"}],
            [{"role": "tool", "tool_call_id": "c", "content": "out"}],
        ),
        (
            [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "?"},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            ],
            [{"role": "assistant", "content": "", "reasoning_content": "hm", "refusal": "no"}],
        ),
    ],
)
def test_input_items(items, messages):
    assert ask(input=items).body["messages"] == messages


def test_instructions_come_first():
    assert ask(instructions="i").body["messages"] == [{"role": "system", "content": "i"}, USER]


def test_what_is_left_out_is_said_once():
    items = [{"type": "web_search_call"}, {"type": "web_search_call"}, {"type": "reasoning", "summary": []}, USER]
    exchange = ask(input=items, store=True)
    assert exchange.body["messages"] == [USER]
    assert exchange.warnings == (
        "input item web_search_call skipped",
        "reasoning without readable text skipped",
        "store ignored",
    )


TEXT_PART = {"type": "input_text", "text": 3}
SPACE = {"type": "namespace", "name": "n"}
BAD = [
    ({"input": 3}, "input", "invalid_value"),
    ({"input": None}, "input", "missing_parameter"),
    ({"input": []}, "input", "missing_parameter"),
    ({"input": [3]}, "input[0]", "invalid_value"),
    ({"input": [{"type": 3}]}, "input[0].type", "invalid_value"),
    ({"input": [{"content": "x"}]}, "input[0].role", "missing_parameter"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", "invalid_value"),
    ({"input": [{"role": "user"}]}, "input[0].content", "missing_parameter"),
    ({"input": [{"role": "user", "content": {}}]}, "input[0].content", "invalid_value"),
    ({"input": [{"role": "user", "content": [TEXT_PART]}]}, "input[0].content[0].text", "invalid_value"),
    ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input[0].content[0].type", "unsupported_content"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input[0].content[0].image_url",
        "unsupported_content",
    ),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments", "missing_parameter"),
    ({"input": [{"type": "function_call", "arguments": {}}]}, "input[0].arguments", "invalid_value"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id", "missing_parameter"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]", "unsupported_parameter"),
    ({"instructions": ["x"]}, "instructions", "invalid_value"),
    ({"model": 3}, "model", "invalid_value"),
    ({"stream": "yes"}, "stream", "invalid_value"),
    ({"temperature": True}, "temperature", "invalid_value"),
    ({"max_output_tokens": 1.5}, "max_output_tokens", "invalid_value"),
    ({"metadata": {"a": 1}}, "metadata.a", "invalid_value"),
    ({"reasoning": "high"}, "reasoning", "invalid_value"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "missing_parameter"),
    ({"include": [1]}, "include", "invalid_value"),
    ({"tools": {}}, "tools", "invalid_value"),
    ({"tools": [{}]}, "tools[0].type", "missing_parameter"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_parameter"),
    ({"tools": [{"type": "function", "name": "f", "parameters": 1}]}, "tools[0].parameters", "invalid_value"),
    ({"tools": [{**SPACE, "tools": [{"type": "x", "name": "f"}]}]}, "tools[0].tools[0].type", "invalid_value"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"),
    ({"conversation": "c"}, "conversation", "unsupported_parameter"),
    ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
    ({"background": True}, "background", "unsupported_parameter"),
]


@pytest.mark.parametrize(("fields", "param", "code"), BAD, ids=[f"{param} {code}" for _, param, code in BAD])
def test_bad_input(fields, param, code):
    with pytest.raises(GatewayError) as caught:
        ask(**fields)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


def test_a_schema_that_nests_too_deeply_is_refused():
    schema: dict = {}
    for _ in range(900):
        schema = {"a": schema}
    with pytest.raises(GatewayError) as caught:
        ask(tools=[{"type": "function", "name": "f", "parameters": schema}])
    assert (caught.value.status, caught.value.code) == (400, "invalid_value")


def translated(**fields):
    """The exchange, or None where it was refused as it should be."""
    try:
        return ask(**fields)
    except GatewayError as error:
        refusal = error
    assert refusal.status == 400
    assert refusal.param
    return None


@given(st.dictionaries(FIELDS, SHAPES, max_size=4))
def test_any_object_is_translated_or_refused(fields):
    exchange = translated(**fields)
    if exchange:
        json.dumps(exchange.body)
        assert all(warning.isascii() and warning.isprintable() for warning in exchange.warnings)
        assert json.loads(exchange.answer.whole({}))["status"] == "completed"


@given(st.lists(SHAPES, max_size=4), st.lists(SHAPES, max_size=3))
def test_any_items_and_tools_are_translated_or_refused(items, tools):
    exchange = translated(input=items, tools=tools)
    if exchange:
        json.dumps(exchange.body)
