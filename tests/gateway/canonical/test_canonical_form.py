"""What the canonical form holds equal, and that it holds nothing else equal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.canonical.form import canonical_message, canonical_tool

text = st.text(max_size=40)
scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(text, values, max_size=4)
MARK = {"cache_control": {"type": "ephemeral"}}


def shuffled(value, flip):
    """The same JSON value with every object's keys in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, flip)) for key, item in value.items()]
        return dict(reversed(items) if flip else items)
    return [shuffled(item, flip) for item in value] if isinstance(value, list) else value


def call(arguments, **extra):
    return {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}, **extra}]}


@given(text)
def test_string_and_single_text_part(words):
    whole = {"role": "user", "content": words}
    part = {"type": "text", "text": words}
    assert canonical_message(whole) == canonical_message({"role": "user", "content": [part]})
    assert canonical_message(whole) == canonical_message({"content": [part | MARK], "role": "user"} | MARK)


@given(objects, st.sampled_from([None, 2]), st.booleans())
def test_argument_spelling(arguments, indent, flip):
    one = call(json.dumps(arguments), id="call_1", type="function")
    other = call(json.dumps(shuffled(arguments, flip), indent=indent), id="call_2", type="function")
    assert canonical_message(one) == canonical_message(other)


@given(objects, objects)
def test_different_arguments_differ(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical_message(call(json.dumps(one))) == canonical_message(call(json.dumps(other)))) == same


@given(objects)
def test_schema_key_order_and_markers(schema):
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    marked = {"function": shuffled(tool["function"], True) | MARK, "type": "function"} | MARK
    assert canonical_tool(tool) == canonical_tool(marked)


@given(text, text)
def test_any_text_counts(one, other):
    pairs = [
        ({"role": "user", "content": one}, {"role": "user", "content": other}),
        ({"role": "user", "content": "x", "name": one}, {"role": "user", "content": "x", "name": other}),
        (call(one), call(other)),
    ]
    for left, right in pairs[: 2 if one != other else 3]:
        assert (canonical_message(left) == canonical_message(right)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "x"}, {"role": "system", "content": "x"}),
        ({"role": "assistant", "content": ""}, {"role": "assistant", "content": None}),
        ({"role": "user", "content": "ab"}, {"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]}),
        ({"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "refusal", "text": "x"}]}),
        (call('{"a":1}'), call('{"a":1.0}')),
        (call('{"a":1}'), call('{"a":true}')),
        (call('{"a":1'), call('{"a": 1')),
        (call("[1]"), call("[ 1]")),
        ("x", {"role": "user", "content": "x"}),
    ],
)
def test_what_stays_different(one, other):
    assert canonical_message(one) != canonical_message(other)


def test_null_is_missing_and_ids_are_unseen():
    bare = {"role": "tool", "content": "42"}
    assert canonical_message(bare) == canonical_message(bare | {"tool_call_id": "a", "id": "m1", "refusal": None})
    assert canonical_message({"role": "assistant"}) == canonical_message({"role": "assistant", "content": None})


def test_schema_properties_named_like_a_marker_count():
    def tool(properties):
        return {"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}}

    assert canonical_tool(tool({"cache_control": {"type": "string"}})) != canonical_tool(tool({}))


def test_required_order_counts():
    assert canonical_tool({"required": ["a", "b"]}) != canonical_tool({"required": ["b", "a"]})


def test_lone_surrogates_are_kept_apart():
    one, other = (canonical_message({"role": "user", "content": c}) for c in ("\ud800", "\ud801"))
    assert one != other
