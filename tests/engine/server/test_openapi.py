"""The OpenAPI document says what is served, and no body that it could describe takes the server down."""

from __future__ import annotations

import json
import math

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from engine.server.app import create_app
from engine.server.openapi import document
from tests.examples import examples

CODES = {
    "invalid_json", "missing_parameter", "invalid_value", "unsupported_parameter", "unsupported_content",
    "invalid_schema", "context_length_exceeded", "model_not_found", "queue_full",
}  # fmt: skip
POSTS = sorted(path for path, methods in document()["paths"].items() if "post" in methods)
SCHEMAS = document()["components"]["schemas"]


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rsplit("/", 1)[1]]
    return schema


def body_schema(path):
    return document()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


# The document


def test_every_route_is_described_and_nothing_else(service):
    served = {
        (route.path, method)
        for route in create_app(service).routes
        if isinstance(route, Route)
        for method in route.methods - {"HEAD"}
    }
    described = {(path, name.upper()) for path, methods in document()["paths"].items() for name in methods}
    assert described == served


def test_it_is_served_and_its_schemas_are_valid(http):
    served = http.get("/openapi.json").json()
    assert served == document()
    assert served["openapi"] == "3.1.0"
    for schema in served["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in references(served):
        assert reference.rsplit("/", 1)[1] in served["components"]["schemas"]


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("field", ["messages", "tools", "min_tokens", "stop_token_ids", "add_generation_prompt"])
def test_a_chats_fields_are_described(field):
    assert field in SCHEMAS["ChatRequest"]["properties"]


# Bodies that follow the document, and bodies that just miss it

TEXT = st.text(max_size=8)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([10**30, -(10**30), 2**63, 0.5, 1e308, -0.0]))
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=4,
)


def following(schema):
    """Values of a schema, small ones; bounds that a type has are mostly kept."""
    schema = resolved(schema)
    if alternatives := schema.get("anyOf"):
        return st.one_of([following(each) for each in alternatives])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object":
            return objects(schema)
        case "array":
            return st.lists(following(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=2)
        case "string":
            return st.sampled_from(["a", "smollm2"]) if "pattern" in schema else TEXT
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "integer":
            low = schema.get("minimum", -2)
            return st.integers(low, min(low + 4, schema.get("maximum", math.inf)))
        case "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 0.01)
            return st.floats(low, min(low + 0.9, schema.get("maximum", math.inf)), allow_nan=False)
        case _:
            return JUNK


@st.composite
def objects(draw, schema):
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    optional = [name for name in properties if name not in required]
    chosen = draw(st.lists(st.sampled_from(optional), max_size=5, unique=True)) if optional else []
    return {name: draw(following(properties[name])) for name in properties if name in required or name in chosen}


@st.composite
def near_misses(draw, schema):
    """A body that follows the schema, with one value anywhere in it replaced, removed or added."""
    body = draw(following(schema))
    target, key = draw(st.sampled_from(list(places(body)) or [(body, "messages")]))
    match draw(st.sampled_from(["replace", "remove", "add"])):
        case "remove":
            del target[key]
        case "add" if isinstance(target, dict):
            target[draw(TEXT)] = draw(JUNK)
        case _:
            target[key] = draw(JUNK)
    return body


def places(value):
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield value, key
        yield from places(member)


def short(body):
    """Answers stay short, so that many bodies can be tried."""
    if body.get("seconds") is not None and body.get("wait") is False:
        body.pop("wait")
    if isinstance(body.get("n"), int) and body["n"] > 2:
        body["n"] = 2
    for field in ("max_tokens", "max_completion_tokens"):
        value = body.get(field)
        if isinstance(value, int) and not isinstance(value, bool) and value > 2:
            body[field] = 2
    if body.get("max_completion_tokens") is None and body.get("max_tokens") is None:
        body["max_tokens"] = 1
    return body


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", [following, near_misses], ids=["following", "near misses"])
def test_no_body_takes_the_server_down(http, path, kind):
    @settings(max_examples=examples(80), database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def any_body(data):
        body = short(data.draw(kind(body_schema(path))))
        judge(http.post(path, content=json.dumps(body)))

    any_body()
    assert http.get("/ready").status_code == 200


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_is_refused(http, path, value):
    """Python's reader would take NaN and Infinity."""
    body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "tokens": [1], "max_tokens": 1}
    numbers = ("temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty", "seconds", "seed")
    for field in (*numbers, "min_tokens", "stop_token_ids", "tokens", "model"):
        judge(http.post(path, content=json.dumps({**body, field: value})))
    judge(http.post(path, content=json.dumps({**body, "logit_bias": {"5": value}})))


def judge(reply):
    """Below 500, and whatever is refused in OpenAI's shape with one of the documented codes."""
    assert reply.status_code < 500, reply.text
    if reply.status_code >= 400:
        error = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] in CODES, error
        assert error["message"]
        return
    assert '"generation_failed"' not in reply.text
