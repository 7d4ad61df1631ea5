"""What a tool's schema says beyond what a grammar can hold is named, not passed over."""

from __future__ import annotations

import pytest


def body(schema, **fields):
    function = {"name": "run", "parameters": schema}
    return {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {**function, **fields}}],
        "max_tokens": 1,
    }


LOOSE = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 3}}}


@pytest.mark.parametrize("stream", [False, True])
def test_places_are_named(http, stream):
    answer = http.post("/v1/chat/completions", json={**body(LOOSE), "stream": stream})
    assert answer.status_code == 200
    assert answer.headers["x-sapwood-unenforced"] == "run/properties/n/multipleOf"


def test_nothing_is_named_where_all_is_held(http):
    answer = http.post("/v1/chat/completions", json=body({"type": "object", "properties": {"n": {"type": "integer"}}}))
    assert "x-sapwood-unenforced" not in answer.headers


def test_strict_refuses_it(http):
    answer = http.post("/v1/chat/completions", json=body(LOOSE, strict=True))
    assert answer.status_code == 400
    assert "multipleOf" in answer.json()["error"]["message"]
