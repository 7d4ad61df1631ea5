"""The guided loop for small models: what it asks for, and that it asks for no more."""

from __future__ import annotations

from agents.profiles import guess
from agents.state import Status

GOOD = "def add(a, b):\n    return a + b"
BAD = "def add(a, b):\n    return a * b"


def small(run, **options):
    return run("Repair the code.", profile="small", **options)


def test_it_repairs_the_accused_function(run, repo, upstream):
    upstream.turns = [upstream.use("run_tests"), upstream.use("replace_function", code=GOOD)]
    ended = small(run)
    assert ended.status is Status.SOLVED
    assert (repo / "calc.py").read_text() == GOOD + "\n\n\ndef twice(a):\n    return a + a\n"
    first, second = upstream.bodies
    assert first["tool_choice"]["function"]["name"] == "run_tests"
    assert second["tool_choice"]["function"]["name"] == "replace_function"
    assert second["tools"] == first["tools"]
    replace = second["tools"][0]["function"]
    assert replace["name"] == "replace_function"
    assert replace["parameters"]["properties"] == {"code": {"type": "string", "pattern": "^def add\\("}}
    evidence = second["messages"][-1]
    assert evidence["role"] == "user"
    assert "def add(a, b):\n    return a - b" in evidence["content"]
    assert "assert -1 == 5" in evidence["content"]
    assert (second["temperature"], second["top_p"]) == (0.8, 0.95)


def test_a_wrong_correction_is_shown_and_tried_again(run, upstream):
    replies = [upstream.use("replace_function", code=BAD), upstream.raw_call("replace_function", '{"code": "def')]
    upstream.turns = [upstream.use("run_tests"), *replies, upstream.use("replace_function", code=GOOD)]
    ended = small(run)
    assert ended.status is Status.SOLVED
    assert "assert 6 == 5" in upstream.bodies[2]["messages"][-1]["content"]


def test_it_gives_up_after_three_corrections(run, upstream):
    upstream.turns = [upstream.use("run_tests")] + [upstream.use("replace_function", code=BAD)] * 9
    ended = small(run)
    assert ended.status is Status.NOT_SOLVED
    assert len(upstream.bodies) == 4


def test_a_server_that_ignores_the_named_tool_does_not_trap_it(run, upstream):
    upstream.turns = [upstream.say("Sure!")] * 9
    assert small(run).status is Status.NOT_SOLVED
    assert len(upstream.bodies) == 4


def test_nothing_to_repair_and_nobody_to_accuse(run, repo, upstream):
    (repo / "calc.py").write_text("def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return a + a\n")
    assert small(run).status is Status.SOLVED
    (repo / "calc.py").write_text("x =\n")
    ended = small(run)
    assert ended.status is Status.NOT_SOLVED
    assert "no function to suspect" in ended.reason
    assert upstream.bodies == []


def test_who_is_small():
    assert guess("HuggingFaceTB/SmolLM2-135M-Instruct", None) == "small"
    assert guess("anything", 5e8) == "small"
    assert guess("Qwen2.5-Coder-32B", 32e9) == "full"
    assert guess("Qwen2.5-Coder-32B", None) == "full"
