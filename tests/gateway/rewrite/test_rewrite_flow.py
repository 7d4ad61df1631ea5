"""Rules in a running gateway: a follow-up finds its prefix with the rule and not without, and what is said of it."""

from __future__ import annotations

import json

import pytest

from gateway.config import GatewayConfig

pytestmark = pytest.mark.anyio

BILLING = "x-anthropic-billing-header: cc_version=2.1.332.0b8; cch={};"
PROMPT = "You are a coding agent.\nUse the tools that you have.\nBe brief.\n" * 20


def on(*rules, **conditions):
    return {"routes": ({"pools": "default", "rewrite": rules, **conditions},)}


def chat_turns(system, tools=lambda n: [tool("ls"), tool("cat")], count=3):
    """The bodies of a conversation's turns, each with the system prompt and tools that `n` makes of it."""
    said = []
    for n in range(count):
        said.append({"role": "user", "content": f"question {n}"})
        body = {"model": "m", "messages": [{"role": "system", "content": system(n)}, *said], "tools": tools(n)}
        yield body
        said.append({"role": "assistant", "content": f"answer {n}"})


def tool(name, description="d", **schema):
    function = {"name": name, "description": description, "parameters": {"type": "object", **schema}}
    return {"type": "function", "function": function}


CASES = {
    "drop_billing_header": chat_turns(lambda n: f"{BILLING.format(n)}\n{PROMPT}"),
    "freeze_timestamps": chat_turns(lambda n: f"Now: 2026-12-03T08:40:0{n}Z\n{PROMPT}"),
    "move_volatile_lines": chat_turns(lambda n: f"On branch main, {n} files changed\n{PROMPT}"),
    "sort_tools": chat_turns(lambda n: PROMPT, lambda n: [tool("cat"), tool("ls")][:: -1 if n == 2 else 1]),
    "freeze_tools": chat_turns(lambda n: PROMPT, lambda n: [tool("cat"), tool("ls", f"Used {n} times")][n % 2 :]),
}


@pytest.mark.parametrize("rule", CASES)
async def test_the_prefix_holds_with_the_rule_only(engine, gateway, rule):
    turns = list(CASES[rule])
    without, with_rule = await gateway(await engine()), await gateway(await engine(), **on(rule))
    for turn in turns:
        broken = await without.http.post("/v1/chat/completions", json=turn)
        held = await with_rule.http.post("/v1/chat/completions", json=turn)
    assert not broken.headers["x-sapwood-cache"].startswith("hit")
    assert held.headers["x-sapwood-cache"].startswith("hit")
    assert "x-sapwood-rewrite" not in broken.headers
    name, _, changed = held.headers["x-sapwood-rewrite"].partition("=")
    assert (name, int(changed) > 0) == (rule, True)


async def test_what_the_upstream_sees(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, **on("drop_billing_header", "sort_tools"))
    body = {
        "model": "m",
        "max_tokens": 16,
        "system": [{"type": "text", "text": BILLING.format("a1")}, {"type": "text", "text": "You are X."}],
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in ("Write", "Bash")],
    }
    answer = await front.http.post("/v1/messages?beta=true", json=body)
    sent = json.loads(upstream.seen[0].body)
    assert sent["messages"][0] == {"role": "system", "content": "You are X."}
    assert [each["function"]["name"] for each in sent["tools"]] == ["Bash", "Write"]
    assert answer.headers["x-sapwood-rewrite"].startswith("drop_billing_header=")
    assert ", sort_tools=" in answer.headers["x-sapwood-rewrite"]


async def test_what_a_rule_leaves_is_relayed_byte_for_byte(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, **on(*CASES))
    raw = b'{ "model":"m", "messages":[ {"role":"user","content":"caf\\u00e9"} ], "seed": 1.0e2 }'
    answer = await front.http.post("/v1/chat/completions", content=raw)
    assert upstream.seen[0].body == raw
    assert "x-sapwood-rewrite" not in answer.headers


async def test_what_json_allows_and_few_can_write_survives(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, **on("sort_tools"))
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud800"}], "seed": 2**70}
    body["tools"] = [tool("b"), tool("a")]
    await front.http.post("/v1/chat/completions", content=json.dumps(body).encode())
    assert json.loads(upstream.seen[0].body) == {**body, "tools": [tool("a"), tool("b")]}


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_comes_back(engine, gateway, stream):
    upstream = await engine()
    said = {"role": "assistant", "content": "Done.", "reasoning_content": "First look, then do."}

    async def behave(request):
        if not json.loads(request.body).get("stream"):
            await request.json({"choices": [{"index": 0, "message": said}]}, headers=upstream.headers)
            return
        await request.sse_head(upstream.headers)
        for field, text in list(said.items())[::-1]:
            event = json.dumps({"choices": [{"index": 0, "delta": {field: text}}]}).encode()
            await request.sse_piece(b"data: " + event[:20])
            await request.sse_piece(event[20:] + b"\n\n")
        await request.sse_piece(b"data: [DONE]\n\n")
        await request.sse_end()

    upstream.behave = behave
    front = await gateway(upstream, **on("keep_reasoning"))
    first = [{"role": "user", "content": "Do it."}]
    await front.chat(first, stream=stream)
    again = [*first, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    answer = await front.chat(again)
    assert json.loads(upstream.seen[1].body)["messages"][1] == said
    assert answer.headers["x-sapwood-rewrite"] == f"keep_reasoning={len(said['reasoning_content'])}"


async def test_only_requests_of_the_route(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, **on("sort_tools", headers={"x-team": "a"}))
    for team, order in (("a", ["a", "b"]), ("b", ["b", "a"])):
        await front.chat([], {"x-team": team}, tools=[tool("b"), tool("a")])
        assert [each["function"]["name"] for each in json.loads(upstream.seen[-1].body)["tools"]] == order


def test_an_unknown_rule_is_a_clear_complaint():
    with pytest.raises(ValueError, match="'drop_billing_header', 'freeze_timestamps'"):
        GatewayConfig(upstreams=("http://127.0.0.1:1",), **on("sort_tool"))
