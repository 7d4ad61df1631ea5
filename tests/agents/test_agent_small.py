"""The guided loop for small models: what it asks for, and that it asks for no more."""

from __future__ import annotations

from agents.events import decode
from agents.profiles import guess, small
from agents.state import Status

GOOD = "def add(a, b):\n    return a + b"
BAD = "def add(a, b):\n    return a * b"


def guided(run, **options):
    return run("Repair the code.", profile="small", **options)


def test_it_repairs_the_accused_function(run, repo, upstream):
    upstream.turns = [upstream.use("run_tests"), upstream.use("replace_function", code=GOOD)]
    ended = guided(run)
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
    corrections = [upstream.use("replace_function", code=code) for code in (BAD, GOOD)]
    upstream.turns = [upstream.use("run_tests"), *corrections]
    ended = guided(run)
    assert ended.status is Status.SOLVED
    assert "assert 6 == 5" in upstream.bodies[2]["messages"][-1]["content"]


def test_a_correction_that_changes_nothing_is_told_without_a_test_run(run, upstream):
    same = "def add(a, b):\n    return a - b"
    corrections = [upstream.use("replace_function", code=code) for code in (same, "def add(:", GOOD)]
    upstream.turns = [upstream.use("run_tests"), *corrections]
    ended = guided(run)
    assert ended.status is Status.SOLVED
    assert "already exactly this code" in upstream.bodies[2]["messages"][-1]["content"]
    assert "does not parse" in upstream.bodies[3]["messages"][-1]["content"]
    kinds = [decode(line).kind for line in run.session(ended.session).path.read_bytes().splitlines()]
    assert kinds.count("verify") == 1


def test_it_gives_up_after_its_rounds(run, upstream, monkeypatch):
    monkeypatch.setattr(small, "ROUNDS", 2)
    upstream.turns = [upstream.use("run_tests")] + [upstream.use("replace_function", code=BAD)] * 9
    ended = guided(run)
    assert ended.status is Status.NOT_SOLVED
    assert len(upstream.bodies) == 3


def test_a_server_that_ignores_the_named_tool_does_not_trap_it(run, upstream, monkeypatch):
    monkeypatch.setattr(small, "ROUNDS", 1)
    upstream.turns = [upstream.say("Sure!")] * 9
    assert guided(run).status is Status.NOT_SOLVED
    assert len(upstream.bodies) == 2


def test_nothing_to_repair_and_nobody_to_accuse(run, repo, upstream):
    (repo / "calc.py").write_text("def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return a + a\n")
    assert guided(run).status is Status.SOLVED
    (repo / "calc.py").write_text("x =\n")
    ended = guided(run)
    assert ended.status is Status.NOT_SOLVED
    assert "no function to suspect" in ended.reason
    assert upstream.bodies == []


def test_who_is_small():
    assert guess("HuggingFaceTB/SmolLM2-135M-Instruct", None) == "small"
    assert guess("anything", 5e8) == "small"
    assert guess("Qwen2.5-Coder-32B", 32e9) == "full"
    assert guess("Qwen2.5-Coder-32B", None) == "full"
