"""Malformed requests are refused by name; no JSON at all does more harm than that."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat import Chat
from gateway.dialects.messages.count import CountTokens
from gateway.dialects.messages.translator import Messages
from gateway.errors import GatewayError
from tests.gateway.dialects.messages.saying import BODY, PIXEL, TOOL, USE, ask, result, text

BAD = [
    ({"max_tokens": None}, "max_tokens", "missing_parameter"),
    ({"max_tokens": "5"}, "max_tokens", "invalid_value"),
    ({"max_tokens": True}, "max_tokens", "invalid_value"),
    ({"max_tokens": -1}, "max_tokens", "invalid_value"),
    ({"model": None}, "model", "missing_parameter"),
    ({"model": 3}, "model", "invalid_value"),
    ({"messages": None}, "messages", "missing_parameter"),
    ({"messages": {}}, "messages", "invalid_value"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": ["a"]}, "messages.0", "invalid_value"),
    ({"messages": [{"content": "a"}]}, "messages.0.role", "missing_parameter"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages.0.content", "missing_parameter"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content", "invalid_value"),
    ({"system": 5}, "system", "invalid_value"),
    ({"system": [{"type": "text"}]}, "system.0.text", "missing_parameter"),
    ({"temperature": "hot"}, "temperature", "invalid_value"),
    ({"temperature": float("inf")}, "temperature", "invalid_value"),
    ({"top_k": True}, "top_k", "invalid_value"),
    ({"stop_sequences": "a"}, "stop_sequences", "invalid_value"),
    ({"stop_sequences": ["a", ""]}, "stop_sequences.1", "invalid_value"),
    ({"stream": "yes"}, "stream", "invalid_value"),
    ({"thinking": "yes"}, "thinking", "invalid_value"),
    ({"metadata": []}, "metadata", "invalid_value"),
    ({"tools": {}}, "tools", "invalid_value"),
    ({"tools": [5]}, "tools.0", "invalid_value"),
    ({"tools": [{"name": "a"}]}, "tools.0.input_schema", "missing_parameter"),
    ({"tools": [{"input_schema": {}}]}, "tools.0.name", "missing_parameter"),
    ({"tools": [{**TOOL, "strict": 1}]}, "tools.0.strict", "invalid_value"),
    ({"tool_choice": {"type": "any"}}, "tool_choice", "invalid_value"),
    ({"tool_choice": {"type": "must"}, "tools": [TOOL]}, "tool_choice.type", "invalid_value"),
    ({"tool_choice": {"type": "tool", "name": "x"}, "tools": [TOOL]}, "tool_choice.name", "invalid_value"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type", "invalid_value"),
    ({"output_format": {"type": "json_schema"}}, "output_format.schema", "missing_parameter"),
]
BAD_BLOCKS = [
    ("user", "a", "", "invalid_value"),
    ("user", {"text": "a"}, ".type", "missing_parameter"),
    ("user", {"type": "text"}, ".text", "missing_parameter"),
    ("user", {"type": "text", "text": 5}, ".text", "invalid_value"),
    ("user", {"type": "image"}, ".source", "missing_parameter"),
    ("user", {"type": "image", "source": {"type": "file", "file_id": "f"}}, ".source", "unsupported_content"),
    ("user", {"type": "document", "source": {"type": "base64", "data": "x"}}, ".source", "unsupported_content"),
    ("user", {"type": "tool_result", "content": "a"}, ".tool_use_id", "missing_parameter"),
    ("user", result(5), ".content", "invalid_value"),
    ("user", result([{"type": "text"}]), ".content.0.text", "missing_parameter"),
    ("user", result("a", is_error="yes"), ".is_error", "invalid_value"),
    ("user", USE, "", "invalid_value"),
    ("assistant", result("a"), "", "invalid_value"),
    ("assistant", PIXEL, "", "invalid_value"),
    ("assistant", {**USE, "input": "{}"}, ".input", "invalid_value"),
    ("assistant", {**USE, "input": {"a": float("inf")}}, ".input", "invalid_value"),
    ("assistant", {**USE, "id": None}, ".id", "missing_parameter"),
    ("assistant", {"type": "thinking"}, ".thinking", "missing_parameter"),
]


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    BAD
    + [
        ({"messages": [{"role": role, "content": [*text("a"), block]}]}, f"messages.0.content.1{at}", code)
        for role, block, at, code in BAD_BLOCKS
    ],
)
def test_what_is_malformed_is_refused_by_name(fields, param, code):
    with pytest.raises(GatewayError) as caught:
        ask(**fields)
    error = caught.value
    assert (error.status, error.code, error.param) == (400, code, param)
    assert error.message.startswith(f"{param}: ")
    assert len(error.message) < 300


def test_blocks_within_blocks_have_an_end():
    deep = {"type": "text", "text": "a"}
    for _ in range(3000):
        deep = {"type": "document", "source": {"type": "content", "content": [deep]}}
    with pytest.raises(GatewayError):
        ask(messages=[{"role": "user", "content": [deep]}])
    members = {}
    for _ in range(3000):
        members = {"a": members}
    with pytest.raises(GatewayError):
        ask(messages=[{"role": "assistant", "content": [{**USE, "input": members}]}])


TYPES = ("text", "image", "document", "tool_use", "tool_result", "thinking", "search_result", "tool_addition", "base64")
KEYS = ("type", "text", "source", "content", "input", "id", "name", "tool_use_id", "thinking", "tool", "role", "format")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TYPES) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
BLOCKS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(TYPES)}, optional=dict.fromkeys(KEYS[1:], JSON)), max_size=3
)
TURNS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": JSON | BLOCKS}),
    max_size=3,
)
FIELDS = (
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "output_config",
    "stop_sequences",
    "stream",
    "top_p",
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3), JSON | TURNS)
def test_any_json_is_translated_or_refused(fields, messages):
    for read in (lambda body: Messages().exchange(body).body, lambda body: CountTokens().exchange(body).body):
        with contextlib.suppress(GatewayError):
            assert Chat().parse(read({**BODY, **fields, "messages": messages})).messages
