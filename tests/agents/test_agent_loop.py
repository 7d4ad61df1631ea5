"""The loop with the real tools on a scripted model: it solves, it stops in a clear state, it can be resumed."""

from __future__ import annotations

import json
import os

import pytest

from agents import model
from agents.events import Kind, decode
from agents.state import Status

QUICK = "grep -q 'a + b' calc.py"
"""A judge that answers sooner than pytest, for tests that are not about tests."""
GOOD = "def add(a, b):\n    return a + b\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(model, "RETRY_DELAYS", (0.0, 0.0))


@pytest.fixture
def solution(upstream):
    """Read, edit, finish. (The agent runs the tests by itself then.)"""
    return lambda: [
        upstream.use("read_file", path="calc.py"),
        upstream.use("edit_file", path="calc.py", old="a - b", new="a + b"),
        upstream.say("The sign was wrong."),
    ]


def events(run, ended):
    raw = run.session(ended.session).path.read_bytes()
    return [decode(line) for line in raw.splitlines()]


def test_edit_run_tests_finish(run, repo, upstream, solution):
    upstream.turns = solution()
    upstream.turns.insert(2, upstream.use("run_tests"))
    ended = run()
    assert ended.status is Status.SOLVED
    assert upstream.bodies[-1]["messages"][-1]["content"] == "2 passed"
    assert "-    return a - b\n+    return a + b" in ended.diff
    assert ended.tests == "2 passed"
    assert (repo / "calc.py").read_text().startswith(GOOD)
    assert ended.totals == {"prompt": 400, "cached": 360, "computed": 40}
    assert [turn.calls for turn in ended.turns["main"]] == [("read_file",), ("edit_file",), ("run_tests",), ()]


def test_every_request_extends_the_one_before_byte_for_byte(run, upstream, solution):
    upstream.turns = solution()
    run(tests=QUICK)
    bodies = [json.loads(raw) for raw in upstream.raw]
    for before, after in zip(upstream.raw, upstream.raw[1:], strict=False):
        # `messages` and then `tools` are compared as the text that was on the wire, not as values.
        old, new = before.decode(), after.decode()
        end = old.index('], "tools": ')
        assert new.startswith(old[:end] + ", ")
        assert old[end:] == new[new.index('], "tools": ') :]
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == sorted(
        tool["function"]["name"] for tool in bodies[0]["tools"]
    )
    assert bodies[1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"path" : "calc.py"}'


def test_volatile_facts_are_in_the_first_user_message_only(run, upstream, repo, solution):
    upstream.turns = solution()
    run(tests="test_calc.py")
    system, user = upstream.bodies[0]["messages"]
    assert repo.name not in system["content"]
    for fact in ("repair it", f"Repository: {repo.name}", "Tests: test_calc.py", "calc.py\ntest_calc.py"):
        assert fact in user["content"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda up: up.raw_call("edit_file", '{"path": "calc.py", "old": '), "cannot be read"),
        (lambda up: up.raw_call("edit_file", '["calc.py"]'), "not a JSON object"),
        (lambda up: up.use("delete_everything", path="/"), "There is no tool named 'delete_everything'"),
        (lambda up: up.raw_call("write_file", '{"path": "x", "content": "y"}', finish="length"), "Not run"),
    ],
    ids=["malformed", "not-an-object", "unknown-tool", "cut-off"],
)
def test_a_fault_is_told_stops_after_three_and_resumes_to_success(run, repo, upstream, solution, fault, told):
    upstream.turns = [fault(upstream) for _ in range(3)]
    ended = run(tests=QUICK)
    assert ended.status is Status.NOT_SOLVED
    assert "3 unusable replies in a row" in ended.reason
    assert told in upstream.bodies[1]["messages"][-1]["content"]
    assert not (repo / "x").exists()
    upstream.turns = solution()
    resumed = run.resume(ended.session)
    assert resumed.status is Status.SOLVED
    assert resumed.session == ended.session


def test_a_tool_that_runs_out_of_time_is_told_and_the_session_goes_on(run, upstream, solution):
    upstream.turns = [upstream.use("run_command", command="sleep 60", timeout=1)]
    ended = run(tests=QUICK, max_turns=1)
    assert ended.status is Status.BUDGET
    assert run.session(ended.session).state.faults == 1
    upstream.turns = solution()
    assert run.resume(ended.session).status is Status.SOLVED
    assert "timed out after 1 s" in upstream.bodies[1]["messages"][-1]["content"]


def test_one_fault_is_forgiven(run, upstream, solution):
    upstream.turns = [upstream.use("nothing"), upstream.use("nothing"), *solution()]
    assert run(tests=QUICK).status is Status.SOLVED


@pytest.mark.parametrize("fault", ["500", "drop", "refuse"])
@pytest.mark.parametrize("turn", [0, 2])
def test_a_model_failure_is_a_clear_state_that_resume_continues(run, upstream, solution, fault, turn):
    broken = upstream.say("half of")
    broken.drop = True
    failures = {"500": [upstream.refuse(500)] * 3, "drop": [broken], "refuse": [upstream.refuse(401, "key?")]}
    upstream.turns = [*solution()[:turn], *failures[fault]]
    ended = run(tests=QUICK)
    assert ended.status is Status.MODEL_FAILED
    assert ended.status.exit_code == 3
    assert "\n" not in ended.reason
    failed = upstream.bodies[-1]
    upstream.turns = solution()[turn:]
    assert run.resume(ended.session).status is Status.SOLVED
    assert upstream.bodies[len(upstream.bodies) - len(solution()[turn:])] == failed


def test_a_context_that_is_full_is_a_budget(run, upstream):
    upstream.turns = [upstream.refuse(400, "too long", "context_length_exceeded")]
    assert run().status is Status.BUDGET


def test_turns_are_a_budget_and_resuming_brings_new_ones(run, upstream, solution):
    upstream.turns = solution()
    ended = run(tests=QUICK, max_turns=2)
    assert ended.status is Status.BUDGET
    assert ended.status.exit_code == 4
    assert run.resume(ended.session, max_turns=2).status is Status.SOLVED


def test_saying_done_is_not_enough(run, upstream, solution):
    upstream.turns = [upstream.say("done"), *solution()]
    assert run().status is Status.SOLVED
    assert "1 failed, 1 passed" in upstream.bodies[1]["messages"][-1]["content"]


def test_saying_done_has_a_limit(run, upstream):
    upstream.turns = [upstream.say("done")] * 9
    ended = run(tests=QUICK)
    assert ended.status is Status.NOT_SOLVED
    assert len(upstream.bodies) == 3


def test_no_tests_is_unverified(run, repo, upstream):
    (repo / "test_calc.py").unlink()
    upstream.turns = [upstream.say("done")]
    ended = run()
    assert (ended.status, ended.status.exit_code) == (Status.UNVERIFIED, 1)


@pytest.mark.parametrize(("command", "status"), [("true", Status.SOLVED), ("exit 3", Status.NOT_SOLVED)])
def test_a_command_can_be_the_judge(run, upstream, command, status):
    upstream.turns = [upstream.say("done")] * 3
    assert run(tests=command).status is status


def test_long_outputs_are_cut_once(run, upstream, solution):
    upstream.turns = [upstream.use("run_command", command="seq 100000"), *solution()]
    ended = run(tests=QUICK)
    shown = upstream.bodies[1]["messages"][-1]["content"]
    assert len(shown) < 13_000
    assert upstream.bodies[-1]["messages"][3]["content"] == shown
    assert ended.status is Status.SOLVED


def test_a_call_is_written_before_it_runs_and_its_result_before_it_is_sent(run, upstream, solution):
    upstream.turns = solution()
    ended = run(tests=QUICK)
    kinds = [event.kind for event in events(run, ended)]
    turn = [Kind.ASK, Kind.REPLY, Kind.CALL, Kind.RESULT]
    assert kinds == [Kind.OPEN, *turn * 2, Kind.ASK, Kind.REPLY, Kind.VERIFY, Kind.STATUS]


def test_resuming_a_solved_session_asks_nothing(run, upstream, solution):
    upstream.turns = solution()
    ended = run(tests=QUICK)
    asked = len(upstream.bodies)
    assert run.resume(ended.session).status is Status.SOLVED
    assert len(upstream.bodies) == asked


def test_arguments_nested_without_end_are_told_to_the_model(run, upstream):
    upstream.turns = [upstream.raw_call("list_files", "[" * 100_000, identity=f"c{n}") for n in range(3)]
    report = run()
    assert report.status is Status.NOT_SOLVED
    assert "nested too deeply" in report.reason


def test_a_prompt_that_is_not_utf8_is_sent_as_text(run, upstream, repo):
    (repo / os.fsdecode(b"odd\xff.py")).touch()
    upstream.turns = [upstream.refuse(400)]
    run("repair \udcff")
    sent = upstream.bodies[0]["messages"][1]["content"]
    assert "repair \\udcff" in sent
    assert "odd\\udcff.py" in sent


def test_the_models_own_directory_does_not_change_the_verdict(run, repo, upstream):
    (repo / "sub").mkdir()
    upstream.turns = [upstream.use("run_command", command="cd sub"), upstream.say("done")]
    assert run(tests="test -f calc.py").status is Status.SOLVED
