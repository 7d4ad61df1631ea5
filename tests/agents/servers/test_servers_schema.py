"""Schemas without references, and lists of tools that are compared."""

from __future__ import annotations

import json

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import Tool

from agents.servers.listing import difference, listing_of
from agents.servers.schema import MOST_NODES, inlined
from tests.examples import examples


def test_references_are_replaced_where_schemas_are_and_data_is_left():
    schema = {
        "$schema": "x",
        "$defs": {
            "Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "a/b": {"$ref": "#/$defs/Point", "title": "outer"},
        },
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/Point", "description": "where"},
            "$ref": {"type": "string"},
            "definitions": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}], "default": {"$ref": "data"}},
        },
    }
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    assert inlined(schema) == {
        "type": "object",
        "properties": {
            "at": {**point, "description": "where"},
            "$ref": {"type": "string"},
            "definitions": {"anyOf": [{**point, "title": "outer"}, {"type": "null"}], "default": {"$ref": "data"}},
        },
    }


def test_recursion_ends():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "kids": {"items": {"$ref": "#/$defs/T"}}}}
    schema = inlined({**tree, "$defs": {"T": {"$ref": "#/$defs/T"}, "unused": {}}})
    assert schema["properties"]["left"] == {
        "type": "object",
        "properties": {"left": {"type": "object"}, "kids": {"items": {}}},
    }
    assert schema["properties"]["kids"] == {"items": {}}


def test_what_refers_elsewhere_or_to_nothing_allows_anything():
    properties = {"a": {"$ref": "https://x.example/s.json"}, "b": {"$ref": "#/$defs/no"}, "c": {"$ref": "#/type/3"}}
    assert inlined({"type": "object", "properties": properties})["properties"] == {"a": {}, "b": {}, "c": {}}
    assert inlined({"type": "object"}) == {"type": "object", "properties": {}}


def test_references_that_grow_are_bounded():
    defs = {f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "abcd"}} for n in range(40)}
    schema = inlined({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    assert json.dumps(schema).count("{") < 3 * MOST_NODES


NAMES = st.sampled_from(["A", "B", "C"])
SCHEMAS = st.recursive(
    st.sampled_from([{"type": "integer"}, {"type": "string"}, {}])
    | NAMES.map(lambda name: {"$ref": f"#/$defs/{name}"}),
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=2).map(lambda found: {"type": "object", "properties": found})
        | inner.map(lambda found: {"type": "array", "items": found})
        | st.lists(inner, min_size=1, max_size=2).map(lambda found: {"anyOf": found})
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.integers() | st.text(max_size=2) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)


def _acyclic(defs, name, seen=()):
    text = json.dumps(defs[name])
    return all(
        other not in (*seen, name) and _acyclic(defs, other, (*seen, name))
        for other in defs
        if f"#/$defs/{other}" in text
    )


@settings(max_examples=examples(200))
@given(st.fixed_dictionaries(dict.fromkeys("ABC", SCHEMAS)), VALUES)
def test_an_inlined_schema_takes_what_the_original_takes(defs, value):
    schema = {"type": "object", "properties": {"v": {"$ref": "#/$defs/A"}}, "$defs": defs}
    flat = inlined(schema)
    assert "$ref" not in json.dumps(flat)
    if all(_acyclic(defs, name) for name in defs):
        taken = jsonschema.Draft202012Validator(schema).is_valid({"v": value})
        assert jsonschema.Draft202012Validator(flat).is_valid({"v": value}) == taken


def tool(name, description="d", **properties):
    return Tool(name=name, description=description, input_schema={"type": "object", "properties": properties})


def test_differences_are_told_in_the_names_that_the_model_knows():
    before = listing_of([tool("stays"), tool("goes"), tool("grows"), tool("stays", "twice")])
    after = listing_of([tool("grows", n={"type": "integer"}), tool("comes", "It\ncomes."), tool("stays")])
    text = difference("git", before, after, lambda name: f"git__{name}")
    assert text.splitlines()[1:] == [
        '- new: git__comes: It comes. Its arguments: {"type":"object","properties":{}}',
        "- gone: git__goes",
        '- changed: git__grows: d Its arguments: {"type":"object","properties":{"n":{"type":"integer"}}}',
    ]
    assert difference("git", after, after, str) == ""


def test_another_order_of_keys_is_no_news():
    one, other = tool("t", a={"type": "string", "title": "A"}), tool("t", a={"title": "A", "type": "string"})
    assert difference("s", listing_of([one]), listing_of([other]), str) == ""
