"""Of tools as agents' servers have them: what a schema allows gets through, what it forbids doesn't or is named.

The oracle is `jsonschema`. The vocabulary is bytes, so that nothing but the grammar decides.
"""

from __future__ import annotations

import copy
import json
from functools import partial

import jsonschema
import pytest
import xgrammar

from engine.errors import RequestError
from engine.sample.grammar import _one_line
from engine.sample.loosen import unenforced
from engine.sample.schema import check_regex, check_schema

TEXT, WHOLE, NUMBER, FLAG, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))


def of(required="", **properties):
    return {"type": "object", "properties": properties, "required": required.split()}


def one_of(*values):
    return {"type": "string", "enum": list(values)}


def many(items, **bounds):
    return {"type": "array", "items": items, **bounds}


def maybe(schema):
    return {"anyOf": [schema, NULL]}


PAGE = {"page": {**WHOLE, "minimum": 1}, "per_page": {**WHOLE, "minimum": 1, "maximum": 100}}
OWNER = {"owner": TEXT, "repo": TEXT}
DOC = {"$defs": {"block": of("kind", kind=one_of("text", "list"), children=many({"$ref": "#/$defs/block"}))}}
STEP = {
    "oneOf": [
        of("do url", do={"const": "open"}, url={**TEXT, "format": "uri"}),
        of("do ref", do={"const": "click"}, ref=TEXT, double=FLAG),
        of("do ms", do={"enum": ["wait", "sleep"]}, ms={**WHOLE, "minimum": 0}),
    ]
}

TOOLS = [
    (of("path", path=TEXT, head=WHOLE, tail=WHOLE), {"path": "/a b", "head": 3}),
    (of("paths", paths=many(TEXT, minItems=1)), {"paths": ["a", "ü"]}),
    (of("path content", path=TEXT, content=TEXT), {"path": "x", "content": 'say "a"\n\t\\'}),
    (of("path edits", path=TEXT, edits=many(of("oldText newText", oldText=TEXT, newText=TEXT)), dryRun=FLAG),
     {"path": "a", "edits": [{"oldText": "x", "newText": ""}], "dryRun": False}),
    (of("path", path=TEXT, sortBy=one_of("name", "size")), {"path": ".", "sortBy": "size"}),
    (of("path pattern", path=TEXT, pattern=TEXT, excludePatterns=many(TEXT)), {"path": "a", "pattern": "*"}),
    (of("source destination", source=TEXT, destination=TEXT), {"source": "a", "destination": "b"}),
    (of("repo_path", repo_path={**TEXT, "format": "uri-reference"}), {"repo_path": "/a"}),
    (of("repo", repo=TEXT, max_count={**WHOLE, "exclusiveMinimum": 0}), {"repo": ".", "max_count": 10}),
    (of("repo files", repo=TEXT, files=many(TEXT)), {"repo": ".", "files": []}),
    (of("message", message={**TEXT, "minLength": 1}, amend=FLAG), {"message": "fix"}),
    (of("revision", revision={**TEXT, "pattern": "^[0-9a-f]{7,40}$"}), {"revision": "deadbeef"}),
    (of("owner repo title", **OWNER, title=TEXT, body=TEXT, labels=many(TEXT), milestone=NUMBER),
     {"owner": "o", "repo": "r", "title": "t", "labels": ["bug"]}),
    (of("owner repo", **OWNER, state=one_of("open", "closed", "all"), since={**TEXT, "format": "date-time"}, **PAGE),
     {"owner": "o", "repo": "r", "state": "all", "since": "2024-01-01T00:00:00Z", "page": 1, "per_page": 100}),
    (of("owner repo event", **OWNER, event=one_of("APPROVE", "COMMENT"),
        comments=many({"anyOf": [of("path at", path=TEXT, at=WHOLE), of("path line", path=TEXT, line=WHOLE)]})),
     {"owner": "o", "repo": "r", "event": "COMMENT", "comments": [{"path": "a", "line": 3}]}),
    (of("q", q=TEXT, order={"enum": ["asc", "desc", None]}, **PAGE), {"q": "x", "order": None}),
    (of("url", url={**TEXT, "format": "uri"}, timeout={**NUMBER, "minimum": 0.5, "maximum": 60}),
     {"url": "https://a.b/c?d=1", "timeout": 2.5}),
    (of("width height", width={**WHOLE, "minimum": 1}, height={**WHOLE, "minimum": 1}), {"width": 800, "height": 600}),
    (of("element ref", element=TEXT, ref=TEXT, modifiers=many(one_of("Alt", "Shift"), maxItems=2)),
     {"element": "Save", "ref": "e1", "modifiers": ["Alt"]}),
    (of("fields", fields=many(of("name value", name=TEXT, value={"type": ["string", "boolean", "null"]}))),
     {"fields": [{"name": "a", "value": None}, {"name": "b", "value": True}]}),
    (of("steps", steps=many(STEP, minItems=1)), {"steps": [{"do": "click", "ref": "a"}, {"do": "sleep", "ms": 5}]}),
    (of("sql", sql=TEXT, params=many({"type": ["string", "number", "boolean", "null"]}), max={**WHOLE, "maximum": 9}),
     {"sql": "select ?", "params": [1, "a", None, 2.5], "max": 9}),
    (of("table columns", table=TEXT, columns={"type": "object", "additionalProperties": one_of("int", "text")}),
     {"table": "t", "columns": {"id": "int", "name": "text"}}),
    (of("row", row={"type": "object", "additionalProperties": {"anyOf": [TEXT, NUMBER, FLAG, NULL]}}),
     {"row": {"a": 1, "b": None, "c": "x"}}),
    (of("issueKey", issueKey={**TEXT, "pattern": "^[A-Z]{2,9}-[0-9]{1,6}$"}, fields=many(TEXT)), {"issueKey": "AB-12"}),
    (of("summary type", summary={**TEXT, "maxLength": 60}, type=one_of("Bug", "Task"), parent=maybe(TEXT)),
     {"summary": "it breaks", "type": "Bug", "parent": None}),
    (of("jql", jql=TEXT, startAt={**WHOLE, "minimum": 0}, expand=many(one_of("names", "schema"))), {"jql": "a = b"}),
    (of("channel", channel={**TEXT, "pattern": "^[CDG][A-Z0-9]{8,10}$"}, text=TEXT, thread=maybe(TEXT)),
     {"channel": "C012345678", "text": "hi", "thread": "1.2"}),
    (of("user_ids", user_ids=many(TEXT, minItems=1, maxItems=3)), {"user_ids": ["a", "b", "c"]}),
    (of("query", query=TEXT, count={**WHOLE, "minimum": 1, "maximum": 20}, freshness=one_of("day", "week")),
     {"query": "x", "count": 20}),
    (of("near", near={"type": "array", "prefixItems": [{**NUMBER, "minimum": -90, "maximum": 90}, NUMBER],
                      "items": False, "minItems": 2}), {"near": [52.5, 13.4]}),
    (of("from to", **{"from": {**TEXT, "format": "date"}, "to": {**TEXT, "format": "date"}}),
     {"from": "2024-01-31", "to": "2024-02-01"}),
    (of("to subject", to=many({**TEXT, "format": "email"}), subject=TEXT), {"to": ["a@b.co"], "subject": "s"}),
    ({**DOC, **of("doc", doc={"$ref": "#/$defs/block", "description": "the root"})},
     {"doc": {"kind": "list", "children": [{"kind": "text", "children": []}]}}),
    (of("entities", entities=many(of("name entityType facts", name=TEXT, entityType=TEXT, facts=many(TEXT)))),
     {"entities": [{"name": "n", "entityType": "t", "facts": ["o"]}]}),
    (of("thought number more", thought=TEXT, number={**WHOLE, "minimum": 1}, more=FLAG),
     {"thought": "t", "number": 1, "more": True}),
    (of("id", id={**TEXT, "format": "uuid"}, filter={"allOf": [of("a", a=WHOLE)], "description": "d"}),
     {"id": "123e4567-e89b-12d3-a456-426614174000", "filter": {"a": 1}}),
    (of("headers", headers={"type": "object", "patternProperties": {"^x-[a-z]+$": TEXT}}),
     {"headers": {"x-a": "b"}}),
    (of("metadata", metadata={"type": "object"}, tags={"type": "array"}, any={}),
     {"metadata": {"a": [1]}, "tags": [1, "a"]}),
]  # fmt: skip

# A schema, the keyword that xgrammar passes over, and a value that the schema forbids.
NOT_HELD = [
    ({"$defs": {"s": TEXT}, "$ref": "#/$defs/s", "maxLength": 3}, "/maxLength", "abcd"),
    ({**of("", a=WHOLE, b=WHOLE), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "/anyOf", {}),
    ({"minimum": 3, "anyOf": [WHOLE, NULL]}, "/minimum", 1),
    ({"allOf": [of("a", a=WHOLE), of("b", b=WHOLE)]}, "/allOf", {"a": 1}),
    ({**TEXT, "enum": ["a", 1]}, "/enum", 1),
    ({"enum": ["a", "bbb"], "maxLength": 2}, "/maxLength", "bbb"),
    ({**TEXT, "const": 1}, "/const", 1),
    ({"oneOf": [WHOLE, NUMBER]}, "/oneOf", 1),
    ({"oneOf": [of("", a=WHOLE), of("", b=WHOLE)]}, "/oneOf", {"a": 1}),
    (of("z", a=WHOLE), "/required", {"a": 1}),
    (of("", a={"maxLength": 2}), "/properties/a/maxLength", {"a": "abc"}),
    (of("", a={"minimum": 2, "title": "n"}), "/properties/a/minimum", {"a": 1}),
    ({**TEXT, "pattern": "^(?!a)[ab]$"}, "/pattern", "a"),
    ({**TEXT, "pattern": "a^b"}, "/pattern", "ab"),
    ({**TEXT, "pattern": "^2024", "format": "date"}, "/pattern", "2023-01-01"),
    ({**of("", ab=WHOLE), "propertyNames": {"pattern": "^x"}}, "/propertyNames", {"ab": 1}),
    ({**of("", xa=WHOLE), "patternProperties": {"^x.*$": {"maximum": 3, **WHOLE}}, "additionalProperties": False},
     "/patternProperties", {"xa": 5}),
    ({"type": "object", "patternProperties": {"^x.*$": WHOLE, "^.*y$": {**WHOLE, "maximum": 3}}},
     "/patternProperties", {"xy": 5}),
]  # fmt: skip

NO_PLACE_OF_XGRAMMAR = [
    (of("", n={**WHOLE, "minimum": 2.5}), "/properties/n/minimum"),
    (of("", n={**WHOLE, "maximum": 10**30}), "/properties/n/maximum"),
    (of("", n={**NUMBER, "minimum": 3, "maximum": 2}), "/properties/n/minimum"),
    (of("", s={**TEXT, "minLength": 3, "maxLength": 2}), "/properties/s/minLength"),
    (of("", s={**TEXT, "maxLength": 2.0}), "/properties/s/maxLength"),
    (of("", s={**TEXT, "format": "no-such"}), "/properties/s/format"),
    (of("", s={**TEXT, "format": 5}), "/properties/s/format"),
    (of("", a={"type": "array", "minItems": 1}), "/properties/a/minItems"),
    (of("", n={**NUMBER, "format": []}), "/properties/n/format"),
    (of("", a=False), "/properties/a"),
    ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "/$ref"),
    ({"parts": {"a": {"not": TEXT}}, "$ref": "#/parts/a"}, "/parts/a/not"),
    *((of("", s={**TEXT, "pattern": p}), "/properties/s/pattern") for p in (r"(a)\1", r"\bx", r"\p{L}", "(?i)a")),
    *((of("", s={**TEXT, "pattern": p}), "/properties/s/pattern") for p in ("((", "[a", '"', r"\\", r"\n", r"\x22")),
]  # fmt: skip


@pytest.fixture(scope="module")
def compiler():
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=[256]
    )
    return xgrammar.GrammarCompiler(info, max_threads=1)


def _accepted(compiled, value):
    matcher = xgrammar.GrammarMatcher(compiled)
    return bool(matcher.accept_string(json.dumps(value, ensure_ascii=False)) and matcher.is_completed())


@pytest.fixture(scope="module")
def accepts(compiler):
    """What a strict tool's grammar lets through."""
    return lambda schema: partial(_accepted, compiler.compile_grammar(_one_line(schema, True, "tools")))


@pytest.fixture(scope="module")
def accepts_unchecked(compiler):
    """What the grammar lets through that is compiled of a schema as it is."""

    def grammar_of(schema):
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema), any_whitespace=False, separators=(", ", ": "))
        return partial(_accepted, compiler.compile_grammar(grammar))

    return grammar_of


def mutants(value):
    """Values that differ from `value` in one place."""
    odd = [None, True, -7, 10**6, 0.25, "", "?", "x" * 70, [], {}, ["?"] * 4, {"?": "?"}]
    yield from odd
    if isinstance(value, dict):
        for key in value:
            yield {name: copy.deepcopy(item) for name, item in value.items() if name != key}
            yield from ({**value, key: mutant} for mutant in mutants(value[key]))
    if isinstance(value, list):
        for index in range(len(value)):
            yield from ([*value[:index], mutant, *value[index + 1 :]] for mutant in mutants(value[index]))


def test_there_are_enough():
    from tests.engine.sample.test_tool_schemas import SCHEMAS

    assert len(TOOLS) + len(SCHEMAS) >= 60


@pytest.mark.parametrize(("schema", "sample"), TOOLS, ids=lambda value: json.dumps(value)[:40])
def test_a_tool_s_schema_is_held_to(accepts, schema, sample):
    check_schema(schema, "tools", enforce=True, closed=True)
    assert unenforced(schema) == []
    oracle, accepted = jsonschema.Draft202012Validator(schema), accepts(schema)
    oracle.validate(sample)
    assert accepted(sample)
    invalid = [mutant for mutant in mutants(sample) if not oracle.is_valid(mutant)]
    assert len(invalid) > 8
    assert [mutant for mutant in invalid if accepted(mutant)] == []


@pytest.mark.parametrize(("schema", "place", "forbidden"), NOT_HELD, ids=lambda value: json.dumps(value)[:40])
def test_what_is_passed_over_is_named(accepts_unchecked, schema, place, forbidden):
    assert not jsonschema.Draft202012Validator(schema).is_valid(forbidden)
    assert accepts_unchecked(schema)(forbidden), "held to by now: the rule can go"
    assert place in unenforced(schema)
    with pytest.raises(RequestError) as refused:
        check_schema(schema, "response_format", enforce=True)
    assert f"at {place}" in refused.value.message


@pytest.mark.parametrize(("schema", "place"), NO_PLACE_OF_XGRAMMAR, ids=lambda value: json.dumps(value)[:60])
def test_what_the_compiler_would_refuse_or_garble_has_a_place(schema, place):
    with pytest.raises(RequestError) as refused:
        check_schema(schema, "response_format", enforce=True)
    assert (refused.value.code, refused.value.param) == ("invalid_schema", "response_format")
    assert f"at {place}:" in refused.value.message
    assert place in unenforced(schema)


def test_a_regular_expression_alone_may_hold_quotes_but_not_look_around():
    check_regex('^"\\n"$', "regex")
    with pytest.raises(RequestError, match="looking around"):
        check_regex("^(?=a)b$", "regex")


def test_objects_that_are_open_need_their_end_said():
    schema = {**of("", a=WHOLE), "unevaluatedProperties": False}
    check_schema(schema, "p", enforce=True, closed=True)
    with pytest.raises(RequestError, match="unevaluatedProperties"):
        check_schema(schema, "p", enforce=True, closed=False)
