"""What SmolLM2 writes at temperature 1 under a schema is valid, whatever it had in mind."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

SCHEMAS = [
    {
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": 20}, "line": {"type": "integer", "minimum": 1}},
        "required": ["path", "line"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "action": {"enum": ["read", "write", "run"]},
            "force": {"type": "boolean"},
            "args": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
        },
        "required": ["action", "args"],
        "additionalProperties": False,
    },
    {
        "anyOf": [
            {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"], "additionalProperties": False},
            {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
        ]
    },
    {
        "$defs": {"pair": {"type": "array", "prefixItems": [{"const": "k"}, {"type": "boolean"}], "items": False}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/pair"}, "b": {"type": "string", "pattern": "^[a-f0-9]{4}$"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("runs", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_answers_are_valid(http, runs):
    def is_whole(seed):
        schema = SCHEMAS[seed % len(SCHEMAS)]
        answer = http.post(
            "/v1/chat/completions",
            json={
                "messages": [{"role": "user", "content": f"Give me example number {seed}."}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
                "temperature": 1,
                "seed": seed,
                "max_tokens": 100,
            },
            timeout=300,
        ).json()["choices"][0]
        if answer["finish_reason"] != "stop":
            return False
        jsonschema.validate(json.loads(answer["message"]["content"]), schema)
        return True

    with ThreadPoolExecutor(16) as side_by_side:
        assert sum(side_by_side.map(is_whole, range(runs))) > 0.9 * runs, "nearly all come to their end"
