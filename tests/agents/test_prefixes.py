"""The watch over prefixes, and the gateway in front of scripted runs, see what they are there for."""

from __future__ import annotations

import json
from contextlib import ExitStack

import httpx

from tests.agents.conftest import Upstream
from tests.agents.front import gateway_before
from tests.agents.prefixes import breaks

TOOLS = [{"type": "function", "function": {"name": "t"}}]


def ask(session, *texts, tools=TOOLS, **dump):
    messages = [{"role": "user", "content": text} for text in texts]
    return session, json.dumps({"model": "m", "messages": messages, "tools": tools, "seed": 1}, **dump).encode()


def test_growing_and_asking_again_is_no_break():
    assert breaks([ask("s", "a"), ask("s", "a"), ask("s", "a", "b"), ask("t", "x"), ask("s", "a", "b", "c")]) == []


def test_each_kind_of_break():
    first = ask("s", "a", "b")
    for second in (
        ask("s", "a"),
        ask("s", "a", "b2"),
        ask("s", "x", "b", "c"),
        ask("s", "a", "b", "c", tools=[]),
        ask("s", "a", "b", "c", ensure_ascii=False, separators=(",", ": ")),
    ):
        assert breaks([first, second]) == ["request 1 of session s"]


def test_a_child_extends_one_of_its_parents_requests():
    parent = [ask("s", "a"), ask("s", "a", "b")]
    assert breaks([*parent, ask("s.b1", "a", "b", "c"), ask("s.c1", "a", "z"), ask("s.b1.f1", "a", "b", "d")]) == []
    assert breaks([*parent, ask("s.b1", "z")]) == ["request 2 of session s.b1"]
    assert breaks([*parent, ask("s.b1", "a", "c"), ask("s.b1", "a", "d")]) == ["request 3 of session s.b1"]


def test_the_gateway_in_front_counts_a_break():
    """Or their absence in the runs of `sapwood eval` would say nothing."""
    upstream = Upstream()
    with ExitStack() as stack:
        stack.callback(upstream.stop)
        front = stack.enter_context(gateway_before(upstream.url))
        for stamp in ("2026-01-02 10:00:01", "2026-01-02 10:00:02"):
            upstream.turns = [upstream.say("fine")]
            system = {"role": "system", "content": f"It is {stamp}. {'Help people. ' * 99}"}
            body = {"model": "scripted", "messages": [system, {"role": "user", "content": "x"}]}
            httpx.post(f"{front.url}/chat/completions", json=body, headers={"x-session-id": "s"}, trust_env=False)
        assert front.count("prefix_breaks") == 1
    assert len(breaks(zip(upstream.sessions, upstream.raw, strict=True))) == 1
