"""Schemas as tools have them: each compiles, or is refused by a place in it; what a random walk writes is valid."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
import torch

from engine.errors import RequestError
from engine.sample.grammar import GrammarCompiler
from engine.sample.loosen import unenforced

EOS = 2
TEXT, NUMBER, WHOLE, FLAG, NULL = ({"type": kind} for kind in ("string", "number", "integer", "boolean", "null"))


def of(required="", **properties):
    return {"type": "object", "properties": properties, "required": required.split()}


def closed(schema):
    return {**schema, "additionalProperties": False}


def listed(items, **bounds):
    return {"type": "array", "items": items, **bounds}


def either(*schemas, keyword="anyOf"):
    return {keyword: list(schemas)}


NODE = {"$defs": {"node": of("name", name=TEXT, children=listed({"$ref": "#/$defs/node"}, maxItems=2))}}
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email", "uri", "hostname", "duration", "json-pointer"]

SCHEMAS = [
    of("path", path=TEXT),
    closed(of("path content", path=TEXT, content=TEXT)),
    of("path", path=TEXT, offset={**WHOLE, "minimum": 0}, limit={**WHOLE, "minimum": 1, "maximum": 2000}),
    of("command", command=TEXT, timeout={**NUMBER, "minimum": 0}, background=FLAG),
    of("pattern", pattern=TEXT, glob={"type": ["string", "null"]}),
    of("mode", mode={"enum": ["content", "files_with_matches", "count"]}),
    of("edits", edits=listed(closed(of("old new", old=TEXT, new=TEXT, all=FLAG)), minItems=1)),
    of("todos", todos=listed(of("id status", id=WHOLE, status={"enum": ["pending", "done"]}), maxItems=3)),
    closed(of()),
    of(),
    {"type": "object"},
    of("query", query={**TEXT, "minLength": 2}),
    of("title", title={**TEXT, "maxLength": 20}),
    of("branch", branch={**TEXT, "pattern": "^[a-z]{1,8}/[a-z0-9-]{1,12}$"}),
    of("kind", kind={"const": "file"}),
    of("target", target=either(TEXT, WHOLE)),
    of("target", target=either(of("file", file=TEXT), of("line", line=WHOLE))),
    of("target", target=either(of("k", k={"const": "a"}), of("k n", k={"const": "b"}, n=WHOLE), keyword="oneOf")),
    of("value", value=either(NULL, listed(TEXT, maxItems=2))),
    {**NODE, "$ref": "#/$defs/node"},
    {**NODE, **of("root", root={"$ref": "#/$defs/node"})},
    {"definitions": {"p": of("x y", x=NUMBER, y=NUMBER)}, **of("at", at={"$ref": "#/definitions/p"})},
    of("tree", tree=either({"$ref": "#"}, NULL)),
    of("env", env={"type": "object", "additionalProperties": TEXT}),
    of("headers", headers={"type": "object", "patternProperties": {"^x-[a-z]+$": TEXT}, "additionalProperties": False}),
    {"type": "object", "additionalProperties": WHOLE, "maxProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^k[0-9]$"}},
    of("matrix", matrix=listed(listed(listed(FLAG, maxItems=2), maxItems=2), maxItems=2)),
    of("pair", pair={"type": "array", "prefixItems": [TEXT, WHOLE], "minItems": 2, "items": False}),
    of("tags", tags=listed({"enum": ["a", "b"]}, minItems=1, maxItems=3)),
    of("level", level={"enum": [1, 2.5, None, True, "x", [1], {"a": 1}]}),
    of("temperature", temperature={**NUMBER, "minimum": 0, "maximum": 2}),
    of("port", port={**WHOLE, "exclusiveMinimum": 1023, "exclusiveMaximum": 65536}),
    of("delta", delta={**WHOLE, "minimum": -20, "maximum": -3}),
    *(of("at", at={**TEXT, "format": name}) for name in FORMATS),
    {"type": "array", "items": of("id", id=WHOLE), "maxItems": 2},
    {"type": ["object", "null"], "properties": {"a": WHOLE}, "additionalProperties": False},
    {"allOf": [closed(of("a", a=WHOLE))]},
    either(WHOLE, FLAG, NULL, listed(WHOLE, maxItems=1)),
    {"enum": ["north", "south"]},
    {"const": {"a": [1, 2], "b": "ü\n\"'"}},
    of("ä-ö /~", **{"ä-ö": TEXT, "/~": WHOLE}),
    of("a", a={"title": "A", "description": "d", "default": "x", "examples": ["x"], **TEXT}),
    TEXT, NUMBER, WHOLE, FLAG, NULL, True, {},
]  # fmt: skip

REFUSED = [
    (of(a={"not": TEXT}), "/properties/a/not"),
    (of(a=listed(TEXT, uniqueItems=True)), "/properties/a/uniqueItems"),
    (of(a={**NUMBER, "multipleOf": 5}), "/properties/a/multipleOf"),
    ({"if": {}, "then": {}}, "/"),
    (of(a={"allOf": [TEXT, {"maxLength": 3}]}), "/properties/a/allOf"),
    (of(a={"$ref": "#/$defs/none"}), "/properties/a/$ref"),
    (of(a={"$ref": "https://example.org/s.json"}), "/properties/a/$ref"),
    (of(a={**TEXT, "format": "date", "maxLength": 9}), "/properties/a"),
    ({"dependentRequired": {"a": ["b"]}}, "/dependentRequired"),
    (listed({**listed(TEXT), "contains": TEXT}), "/items/contains"),
]


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)


def walk(compiler, grammar, tokenizer, seed):
    """Random allowed tokens, with a taste for ending; None if they don't end in time."""
    rng, state, ids = random.Random(seed), grammar.start(), []
    closing = {*tokenizer.encode('"'), *tokenizer.encode("}"), *tokenizer.encode("]"), *tokenizer.encode("@"), EOS}
    while not state.finished:
        if len(ids) == 300:
            return None
        mask = torch.zeros(compiler.mask_words, dtype=torch.int32)
        state.fill(mask)
        bits = (mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)) & 1
        allowed = bits.flatten().nonzero().flatten().tolist()
        ending = [token for token in allowed if token in closing]
        ids.append(rng.choice(ending if ending and rng.random() < 0.5 else allowed))
        assert state.accept(ids[-1])
    return b"".join(map(tokenizer.token_bytes, ids[:-1])).decode("utf-8")


def test_there_are_enough():
    assert len(SCHEMAS) + len(REFUSED) >= 60


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:50])
def test_a_random_walk_is_valid(compiler, tokenizer, schema, strict):
    grammar = compiler.json_schema(schema, strict)
    texts = [text for seed in range(6) if (text := walk(compiler, grammar, tokenizer, seed)) is not None]
    assert texts
    for text in texts:
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(("schema", "path"), REFUSED, ids=lambda value: json.dumps(value)[:50])
def test_what_cannot_be_enforced_is_refused_with_its_place(compiler, schema, path):
    with pytest.raises(RequestError, match=path.replace("$", r"\$")) as refused:
        compiler.json_schema(schema)
    assert refused.value.code == "invalid_schema"


def test_what_a_tool_is_not_held_to_is_listed():
    schema = of(a={**NUMBER, "multipleOf": 5}, b=listed(TEXT, uniqueItems=True), c=listed(TEXT, uniqueItems=False))
    schema["allOf"] = [{}, {"not": {}}]
    assert unenforced(schema) == ["/allOf", "/properties/a/multipleOf", "/properties/b/uniqueItems"]
