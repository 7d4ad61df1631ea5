"""Bodies that are no request, in each dialect: its own error or the upstream's say, once; never a failure of ours."""

from __future__ import annotations

import json

import pytest

from tests.gateway.bad_input.shapes import GOOD, PATHS, balanced, body_of, check_error

pytestmark = pytest.mark.anyio

MANGLED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b'{"model": "m",}',
    b'{"model": "m"} x',
    b'{"model": "\xc3("}',
    b'{"model": NaN}',
    b'{"model": ' + b"9" * 10_000 + b"}",
    b'{"model": ' + b"[" * 200_000,
    b"\x00" * 100,
]
FIELDS = [
    *("model", "messages", "prompt", "suffix", "input", "instructions", "system", "tools", "functions", "tool_choice"),
    *("stream", "stream_options", "max_tokens", "max_output_tokens", "stop", "stop_sequences", "temperature", "top_p"),
    *("response_format", "text", "reasoning", "thinking", "include", "metadata", "user", "prompt_cache_key", "store"),
    *("previous_response_id", "chat_template_kwargs", "documents", "output_config", "parallel_tool_calls", "n"),
]
VALUES = [None, True, -1, 1.5, 10**30, "", "x", "\ud800", [], [None], [[]], [1], ["x"], {}, {"x": 1}, {"type": 1}]
ODD = [
    *VALUES,
    *({"role": role, "content": content} for role in ("user", 7, None) for content in (None, 1, [1], [{}], [[]])),
    *({"role": "user", "content": [{"type": kind, kind: 1}]} for kind in ("text", "image_url", "tool_result", "x")),
    {"role": "assistant", "content": None, "tool_calls": {}},
    {"role": "assistant", "content": None, "tool_calls": [1, {}, {"function": 1}, {"function": {"arguments": 1}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": 1, "name": [], "input": ""}]},
    {"role": "tool", "tool_call_id": {}, "content": {"a": 1}},
    {"type": "function_call_output", "call_id": 1, "output": {}},
    {"type": "function_call", "name": 1, "arguments": {}},
    {"type": "reasoning", "summary": 1, "encrypted_content": []},
    {"type": [], "content": 1},
    {"role": "system", "content": [{"type": "text", "text": None}]},
]


@pytest.mark.parametrize("path", PATHS)
async def test_mangled_json(engine, gateway, eventually, path):
    upstream = await engine()
    front = await gateway(upstream)
    for body in MANGLED:
        answer = await front.http.post(path, content=body)
        assert answer.status_code == 400, body[:20]
        assert check_error(path, answer.content) in ("invalid_json", "invalid_request_error")
    assert not upstream.seen
    assert (await front.http.post(path, content=body_of(path))).status_code == 200
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("path", PATHS)
async def test_nested_as_deep_as_json_goes(engine, gateway, eventually, path):
    """Legal, so a dialect that does not look inside relays it; whoever walks it must not run out of stack."""
    upstream = await engine()
    front = await gateway(upstream)
    for field in FIELDS:
        for depth in (200, 980):
            body = b'{"%s": %s%s}' % (field.encode(), b"[" * depth, b"]" * depth)
            answer = await front.http.post(path, content=body)
            assert answer.status_code in (200, 400), (field, depth)
            if answer.status_code == 400:
                check_error(path, answer.content)
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("path", PATHS)
async def test_wrong_types(engine, gateway, eventually, path):
    upstream = await engine()
    front = await gateway(upstream)
    for field in FIELDS:
        for value in VALUES:
            await check_taken_or_refused(front, path, {**GOOD[path], field: value})
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("path", PATHS)
async def test_odd_messages_and_tools(engine, gateway, eventually, path):
    upstream = await engine()
    front = await gateway(upstream)
    field = next(name for name in ("messages", "input", "prompt") if name in GOOD[path])
    for odd in ODD:
        await check_taken_or_refused(front, path, {**GOOD[path], field: [odd]})
        await check_taken_or_refused(front, path, {**GOOD[path], "tools": [odd]})
        await check_taken_or_refused(front, path, {**GOOD[path], "tools": [{"type": "function", "function": odd}]})
        await check_taken_or_refused(front, path, {**GOOD[path], "system": [odd]})
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("rule", ["keep_reasoning", "move_volatile_lines", "freeze_tools", "sort_schema_keys"])
async def test_odd_messages_and_tools_under_rewrite_rules(engine, gateway, rule):
    upstream = await engine()
    front = await gateway(upstream, routes=({"pools": "default", "rewrite": [rule, "freeze_timestamps"]},))
    path = "/v1/chat/completions"
    for odd in ODD:
        for fields in ({"messages": [odd]}, {"messages": [{"role": "system", "content": odd}, odd]}, {"tools": [odd]}):
            await check_taken_or_refused(front, path, {**GOOD[path], **fields})


async def check_taken_or_refused(front, path, body):
    answer = await front.http.post(path, content=json.dumps(body).encode())
    if answer.status_code != 200:
        assert answer.status_code in (400, 422), (body, answer.text)
        check_error(path, answer.content)


@pytest.mark.parametrize("path", PATHS)
async def test_a_defect_of_the_gateways_own(engine, gateway, eventually, monkeypatch, path):
    upstream = await engine()
    front = await gateway(upstream)
    with monkeypatch.context() as broken:
        broken.setattr("gateway.proxy.relay.plan_request", lambda *_: 1 // 0)
        answer = await front.http.post(path, content=body_of(path))
    assert answer.status_code == 500
    assert check_error(path, answer.content) in ("internal_error", "api_error")
    assert "ZeroDivision" not in answer.text
    assert (await front.http.post(path, content=body_of(path))).status_code == 200
    await eventually(lambda: balanced(front, upstream))
