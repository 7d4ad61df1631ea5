"""OpenAI messages in one normal form, and clear errors for everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.prompt.messages import Role, read_messages

ROLES = ["system", "developer", "user", "assistant", "tool"]


def one(**fields):
    return read_messages([fields])[0]


@pytest.mark.parametrize("role", ROLES)
def test_contents_that_mean_the_same_are_the_same(role):
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert one(role=role, content="hi") == one(role=role, content=[part])
    halves = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    assert one(role=role, content="hi") == one(role=role, content=halves)
    empty = one(role=role)
    assert empty.content == ""
    assert empty == one(role=role, content=None) == one(role=role, content=[]) == one(role=role, content="")


def test_developer_is_system_and_order_is_kept():
    roles = ["developer", "user", "user", "system", "assistant", "assistant"]
    messages = read_messages([{"role": role, "content": str(i), "x": 1} for i, role in enumerate(roles)])
    assert [message.content for message in messages] == list("012345")
    assert [messages[0].role, messages[3].role] == [Role.SYSTEM, Role.SYSTEM]


def test_tool_calls_keep_their_text():
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":  1}'}}
    message = one(role="assistant", content=None, tool_calls=[call])
    assert (message.tool_calls[0].name, message.tool_calls[0].arguments) == ("run", '{"a":  1}')
    bare = one(role="assistant", tool_calls=[{"function": {"name": "run"}}])
    assert bare.tool_calls[0].arguments == "{}"


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        (None, "invalid_value", "messages"),
        ("hi", "invalid_value", "messages"),
        ([], "invalid_value", "messages"),
        (["hi"], "invalid_value", "messages[0]"),
        ([{"content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "wizard", "content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": ["user"]}], "invalid_value", "messages[0].role"),
        ([{"role": "user", "content": 3}], "invalid_value", "messages[0].content"),
        (
            [{"role": "user"}, {"role": "user", "content": [{"type": "image_url"}]}],
            "unsupported_content",
            "messages[1].content[0].type",
        ),
        ([{"role": "user", "content": [{"type": {}}]}], "unsupported_content", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_value", "messages[0].content[0].text"),
        ([{"role": "user", "content": [7]}], "invalid_value", "messages[0].content[0]"),
        ([{"role": "assistant", "tool_calls": {}}], "invalid_value", "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], "invalid_value", "messages[0].tool_calls[0].function"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": {}}}]}],
            "invalid_value",
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([{"role": "tool", "tool_call_id": 3}], "invalid_value", "messages[0].tool_call_id"),
    ],
)
def test_what_is_wrong_is_named(messages, code, param):
    with pytest.raises(RequestError) as caught:
        read_messages(messages)
    assert (caught.value.code, caught.value.param, caught.value.status) == (code, param, 400)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "tool_calls", "function", "name"]),
            inner | st.sampled_from([*ROLES, "text"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_any_json_is_messages_or_a_request_error(value):
    try:
        messages = read_messages(value)
    except RequestError:
        return
    assert messages
    for message in messages:
        message.content.encode("utf-8")
