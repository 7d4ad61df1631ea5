"""Schemas as servers of tools send them, with what no grammar expresses: one that isn't strict is taken all the same.

What the schema allows can be written; what is written is JSON and valid, but for the places that are named as lost.
The vocabulary is bytes, so that nothing but the grammar decides.
"""

from __future__ import annotations

import copy
import json
import random

import jsonschema
import pytest
import torch
import xgrammar

from engine.errors import RequestError
from engine.output.tools.tool import read_tools
from engine.sample.grammar import GrammarState, _one_line
from engine.sample.loosen import unenforced

TEXT, WHOLE, NUMBER, FLAG, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))
END = 256


def of(required="", **properties):
    return {"type": "object", "properties": properties, "required": required.split()}


TREE = {"$defs": {"node": {**of("v", v=WHOLE, kids={"type": "array", "items": {"$ref": "#/$defs/node"}})}}}
BY_KIND = {
    "type": "object",
    "properties": {"kind": {"enum": ["file", "text"]}},
    "required": ["kind"],
    "if": {"properties": {"kind": {"const": "file"}}},
    "then": {"properties": {"path": TEXT}, "required": ["path"]},
    "else": {"properties": {"text": TEXT}},
}
BASE = {"$defs": {"base": of("id", id=WHOLE), "named": of("name", name=TEXT)}}
ANYTHING = [""]
"""As the last resort: what the compiler doesn't take for a reason of its own."""

# A schema, the places that are lost, and values that it allows, their properties in its order.
ODD = [
    # Nothing says what a value is, or almost nothing.
    ({}, [], [{}, {"a": [1, None, {"b": "c"}]}]),
    ({"properties": {"a": WHOLE}}, [], [{}, {"a": 1}]),
    (of("a b", a=True, b={}), [], [{"a": 1, "b": [None]}]),
    (of("a", a={"description": "anything"}), [], [{"a": {"b": 1}}]),
    (of("a", a={"title": "n", "minimum": 1}), ["/properties/a/minimum"], [{"a": 5}, {"a": "x"}]),
    # What draft-04, OpenAPI and generators of schemas write.
    (of("n", n={**NUMBER, "minimum": 0, "exclusiveMinimum": True}), ["/properties/n/exclusiveMinimum"], [{"n": 0.5}]),
    (of("n", n={**WHOLE, "format": "int64"}, f={**NUMBER, "format": "double"}), [], [{"n": 3, "f": 0.25}]),
    (of("p", p={**TEXT, "format": "password"}), [], [{"p": 'a"b'}]),
    (of("p", p={**TEXT, "format": "glob"}), ["/properties/p/format"], [{"p": "*.py"}]),
    (of("s", s={**TEXT, "nullable": True}), [], [{"s": "a"}]),
    (of("s", s={**TEXT, "enum": ["a", None]}), ["/properties/s/enum"], [{"s": "a"}]),
    (of("s", s={"type": ["string", "null"], "enum": ["a", "b"]}), [], [{"s": "b"}]),
    (of("s", s={**TEXT, "enum": []}), ["/properties/s/enum"], []),
    (of("k", k={"const": "v"}, n={"const": None}), [], [{"k": "v", "n": None}]),
    (of("at", at={"type": "array", "items": [NUMBER, NUMBER], "additionalItems": False, "minItems": 2}),
     ["/properties/at/items"], [{"at": [1, 2.5]}]),
    (of("at", at={"type": "array", "items": [NUMBER, TEXT]}), ["/properties/at/items"], [{"at": [1, "a"]}]),
    (of("a", a={"type": "array", "minItems": 1}), ["/properties/a/minItems"], [{"a": ["x", 1]}]),
    (of("a", a={"type": "array", "items": TEXT, "uniqueItems": True}), ["/properties/a/uniqueItems"], [{"a": ["x"]}]),
    (of("a", a={"type": "array", "contains": WHOLE}), ["/properties/a/contains"], [{"a": [1, "x"]}]),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://a.b", **of("a", a=TEXT)}, [], [{"a": ""}]),
    # References.
    (of("a", a={"$ref": "#/$defs/none"}), ["/properties/a/$ref"], [{"a": 1}, {"a": {"b": []}}]),
    (of("a", a={"$ref": "https://example.org/a.json"}), ["/properties/a/$ref"], [{"a": "x"}]),
    (of("a", a={"$ref": "#name"}), ["/properties/a/$ref"], [{"a": "x"}]),
    ({**TREE, **of("root", root={"$ref": "#/$defs/node"})}, [],
     [{"root": {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3}]}}]),
    ({**TREE, **of("root", root={"$ref": "#/$defs/node", "not": {"required": ["kids"]}})}, ["/properties/root/not"],
     [{"root": {"v": 1}}]),
    (of("", sub={"$ref": "#"}, x=WHOLE), [], [{"sub": {"sub": {}, "x": 1}}]),
    ({"$defs": {"a": {"$ref": "#/$defs/a"}}, **of("a", a={"$ref": "#/$defs/a"})},
     ["/properties/a/$ref", "/$defs/a/$ref"], [{"a": 1}]),
    ({"anyOf": [{"$ref": "#"}]}, ["/anyOf"], [{}]),
    ({**of("", a=WHOLE, b=FLAG), "anyOf": [{"$ref": "#/properties/a"}, {"$ref": "#"}]}, ["/anyOf"], [{"a": 1}]),
    # Several schemas for one value.
    ({**BASE, "allOf": [{"$ref": "#/$defs/base"}, {"$ref": "#/$defs/named"}]}, ["/allOf"], [{"id": 1, "name": "a"}]),
    ({**BASE, **of("x", x=FLAG), "allOf": [{"$ref": "#/$defs/base"}]}, ["/allOf"], [{"x": True, "id": 1}]),
    (of("s", s={"allOf": [TEXT, {"maxLength": 3}]}), ["/properties/s/allOf"], [{"s": "abc"}]),
    (of("s", s={"allOf": []}), ["/properties/s/allOf"], [{"s": 1}]),
    ({**of("", a=WHOLE, b=WHOLE), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ["/anyOf"], [{"a": 1}]),
    ({**of("", a=WHOLE), "oneOf": [of("b", b=TEXT), of("c", c=TEXT)]}, ["/oneOf"], [{"a": 1, "b": "x"}, {"c": "y"}]),
    ({"oneOf": [of("", a=WHOLE), of("", b=WHOLE)]}, ["/oneOf"], [{"a": 1}, {"b": 1}]),
    (of("v", v={"oneOf": [WHOLE, NUMBER]}), ["/properties/v/oneOf"], [{"v": 0.5}]),
    (of("v", v={"anyOf": [False, TEXT]}), ["/properties/v/anyOf/0"], [{"v": "a"}]),
    # Conditions.
    (BY_KIND, ["/else", "/if", "/then"], [{"kind": "file", "path": "a"}, {"kind": "text", "text": "a"}]),
    (of("a", a={"not": {"const": "x"}}), ["/properties/a/not"], [{"a": "y"}]),
    ({**of("", a=TEXT, b=TEXT), "dependentRequired": {"a": ["b"]}}, ["/dependentRequired"], [{"b": "x"}]),
    ({**of("", a=TEXT), "dependentSchemas": {"a": of("b", b=TEXT)}}, ["/dependentSchemas"], [{"a": "x", "b": "y"}]),
    ({**of("", a=TEXT, b=TEXT), "dependencies": {"a": ["b"]}}, ["/dependencies"], [{"a": "x", "b": "y"}]),
    # Names.
    (of("a z", a=WHOLE), ["/required"], [{"a": 1, "z": "anything"}]),
    ({"type": "object", "required": ["z"]}, ["/required"], [{"z": 1, "other": 2}]),
    ({**of("a", a=WHOLE), "patternProperties": {"^x": TEXT}}, [], [{"a": 1, "x1": "y"}]),
    ({**of("a", a=WHOLE), "patternProperties": {"x": TEXT}}, ["/patternProperties"], [{"a": 1, "x1": "y"}]),
    ({"type": "object", "patternProperties": {"(?=a)": WHOLE}}, ["/patternProperties"], [{"a": 1}]),
    ({**of("", ab=WHOLE), "propertyNames": {"pattern": "^[a-z]+$"}}, ["/propertyNames"], [{"ab": 1}]),
    ({**of("", a=WHOLE), "minProperties": 2}, ["/minProperties"], []),
    (of("", a=False, b=WHOLE), ["/properties/a"], [{"b": 1}]),
    (of('"', **{'"': TEXT, "ä/~": WHOLE}), [], [{'"': "a", "ä/~": 1}]),
    # Patterns and lengths.
    (of("s", s={**TEXT, "pattern": "^[a-z]+(-[a-z]+)*$"}), [], [{"s": "a-b"}]),
    (of("s", s={**TEXT, "pattern": "^(?!a)[ab]$"}), ["/properties/s/pattern"], [{"s": "b"}]),
    (of("s", s={**TEXT, "pattern": "(unclosed"}), ["/properties/s/pattern"], []),
    (of("s", s={**TEXT, "pattern": "^x{$"}), ANYTHING, []),
    (of("s", s={**TEXT, "maxLength": 100}), [], [{"s": 'a"b\n'}]),
    (of("s", s={**TEXT, "minLength": 3, "format": "date"}), ["/properties/s/minLength"], [{"s": "2024-01-31"}]),
    (of("n", n={**WHOLE, "minimum": 0.5}), ["/properties/n/minimum"], [{"n": 1}]),
    (of("n", n={**WHOLE, "maximum": 1e30}), ["/properties/n/maximum"], [{"n": 1}]),
    (of("n", n={**NUMBER, "multipleOf": 0.5}), ["/properties/n/multipleOf"], [{"n": 1.5}]),
]  # fmt: skip
# What a grammar is narrower than, as it has no way to count or match what JSON writes with an escape.
NARROW = [
    of("s", s={**TEXT, "pattern": r"\S"}),
    of("s", s={**TEXT, "pattern": "^/"}),
    of("s", s={**TEXT, "maxLength": 4000}),
]
QUOTED = [{"s": '/a "b"\n' * 30}]
ODD += [(schema, [f"/properties/s/{list(schema['properties']['s'])[1]}"], QUOTED) for schema in NARROW]
EACH = pytest.mark.parametrize(("schema", "places", "values"), ODD, ids=lambda value: json.dumps(value)[:60])


@pytest.fixture(scope="module")
def compiler():
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=[END]
    )
    return xgrammar.GrammarCompiler(info, max_threads=1)


@pytest.fixture
def start(compiler):
    """A state of a tool that isn't strict."""

    def begin(schema):
        compiled = compiler.compile_grammar(_one_line(schema, False, "tools"))
        return GrammarState(xgrammar.GrammarMatcher(compiled))

    return begin


def walk(state, seed):
    """Random allowed bytes, with a taste for ending; None if they don't end in time."""
    rng, text = random.Random(seed), bytearray()
    while not state.finished:
        if len(text) == 300:
            return None
        mask = torch.zeros((END + 32) // 32, dtype=torch.int32)
        state.fill(mask)
        choices = [i for i in range(END + 1) if int(mask[i // 32]) >> (i % 32) & 1]
        ending = [choice for choice in choices if choice == END or choice in b'"}]']
        choice = rng.choice(ending if ending and rng.random() < 0.5 else choices)
        assert state.accept(choice)
        if choice != END:
            text.append(choice)
    return text.decode()


def without(schema, places):
    """What is left of `schema`; names that hold a slash can't be given."""
    rest = copy.deepcopy(schema)
    for place in places:
        *outer, last = place.split("/")[1:] or [""]
        node = rest
        for part in outer:
            node = node[int(part) if isinstance(node, list) else part]
        if isinstance(node, list):
            node[int(last)] = {}
        elif last:
            del node[last]
        else:
            rest = {"type": "object"}
    return rest


@EACH
def test_what_is_lost_is_named(schema, places, values):
    assert unenforced(schema) == places
    assert read_tools([{"type": "function", "function": {"name": "t", "parameters": schema}}])


@EACH
def test_what_is_allowed_can_be_written(start, schema, places, values):
    for value in values:
        jsonschema.Draft202012Validator(without(schema, places)).validate(value)
        assert start(schema).accepts(json.dumps(value, ensure_ascii=False)), value


@EACH
def test_what_is_written_is_valid_but_for_what_is_lost(start, schema, places, values):
    rest = without(schema, unenforced(schema))
    texts = [text for seed in range(12) if (text := walk(start(schema), seed)) is not None]
    assert texts
    for text in texts:
        value = json.loads(text)
        assert isinstance(value, dict)
        jsonschema.Draft202012Validator(rest).validate(value)


@EACH
def test_strict_takes_it_only_whole(schema, places, values):
    tool = {"type": "function", "function": {"name": "t", "parameters": schema, "strict": True}}
    if places in ([], ANYTHING) or schema in NARROW:
        read_tools([tool])
        return
    with pytest.raises(RequestError) as refused:
        read_tools([tool])
    assert refused.value.code == "invalid_schema"
    assert any(f" at {place}" in refused.value.message for place in places)
