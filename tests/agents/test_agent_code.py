"""`sapwood code` as a user runs it: exit statuses, outputs, signals, and a kill in the middle of a tool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from agents import model
from agents.cli.code import code
from agents.events import decode
from agents.stack import SAPWOOD
from agents.state import Status

QUICK = "grep -q 'a + b' calc.py"


@pytest.fixture
def command(repo, upstream, tmp_path):
    """Start `sapwood code` in a process of its own; every process started is ended with the test."""
    started = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*arguments, url=None):
        argv = [*SAPWOOD, "code", "--repo", str(repo)]
        environment = {**os.environ, "SAPWOOD_BASE_URL": url or upstream.url, "TMPDIR": str(temporary)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*argv, *arguments], env=environment, **pipes)
        started.append(process)
        return process

    def finish(*arguments, url=None):
        process = start(*arguments, url=url)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in out + err
        return process.returncode, out, err

    finish.start, finish.temporary = start, temporary
    yield finish
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def here(repo, upstream, monkeypatch):
    """`sapwood code` in this process: quicker, where a process of its own is not the point."""
    monkeypatch.setattr(model, "RETRY_DELAYS", (0.0, 0.0))

    def run(*arguments, url=None):
        done = CliRunner().invoke(code, ["--repo", str(repo), "--base-url", url or upstream.url, *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, done.output

    return run


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.01)


def edit(upstream):
    return upstream.use("edit_file", path="calc.py", old="a - b", new="a + b")


def test_solved_is_0_with_a_line_per_turn_a_table_a_diff_and_the_tests(command, upstream):
    upstream.turns = [edit(upstream), upstream.say("done")]
    status, out, err = command("-p", "repair", "--profile", "full")
    assert (status, err) == (0, "")
    assert "turn 1 main: prompt 100, cached 90, computed 10, TTFT" in out
    assert "turns of session" in out
    assert "+    return a + b" in out
    assert "2 passed" in out
    assert "solved: the tests pass" in out
    assert "\x1b" not in out  # not a terminal: no colours, no cursor


def test_json_is_one_object(here, upstream):
    upstream.turns = [edit(upstream), upstream.say("done")]
    status, out = here("-p", "repair", "--tests", QUICK, "--output", "json")
    report = json.loads(out)
    assert (status, report["status"], report["exit_code"]) == (0, "solved", 0)
    assert report["totals"] == {"prompt": 200, "cached": 180, "computed": 20}
    assert report["turns"][0]["calls"] == ["edit_file"]
    assert report["turns"][0]["computed_tokens"] == 10


def test_not_solved_is_1_and_budget_is_4(here, upstream):
    upstream.turns = [upstream.say("done")] * 3
    assert here("-p", "x", "--tests", QUICK)[0] == 1
    upstream.turns = [upstream.use("list_files")]
    status, out = here("-p", "x", "--max-turns", "1")
    assert status == 4
    assert "--resume" in out


def test_an_unreachable_model_is_3_in_one_line(here, upstream):
    upstream.turns = [upstream.refuse(404, "no such model")]
    assert here("-p", "x")[0] == 3
    status, out = here("-p", "x", url="http://127.0.0.1:1/v1")
    assert status == 3
    assert len(out.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-p", "x", "--resume", "y"],
        ["--resume", "../../etc/passwd"],
        ["-p", "x", "--branches", "0"],
        ["-p", "x", "--repo", "/nowhere"],
        ["-p", "x", "--base-url", "http://[bad/v1"],
        ["-p", "x", "--api-key-env", "SAPWOOD_NO_SUCH_KEY"],
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_usage_is_2(here, upstream, arguments):
    status, out = here(*arguments)
    assert status == 2
    assert out.strip().splitlines()[-1].startswith("Error: ")
    assert upstream.bodies == []


def test_kill_in_the_middle_of_a_tool_and_resume_runs_nothing_twice(command, run, repo, upstream):
    slow = "touch started; sleep 60; echo two >> log"
    upstream.turns = [upstream.use("run_command", command="echo one >> log"), edit(upstream)]
    upstream.turns += [upstream.use("run_command", command=slow)]
    process = command.start("-p", "repair", "--tests", QUICK)
    until((repo / "started").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    [path] = (repo / ".sapwood" / "sessions").glob("*.jsonl")
    assert decode(path.read_bytes().splitlines()[-1]).kind == "call"
    asked = len(upstream.bodies)
    with path.open("ab") as file:
        file.write(b'{"type":"result","call":"c","te')  # and the line being written at that moment is torn

    upstream.turns = [upstream.say("done")]
    status, out, _ = command("--resume", path.stem)
    assert status == 0, out
    assert (repo / "log").read_text() == "one\n"
    assert "cut off in the middle" in upstream.bodies[-1]["messages"][-1]["content"]
    assert len(upstream.bodies) == asked + 1
    assert upstream.bodies[-1]["messages"][: len(upstream.bodies[-2]["messages"])] == upstream.bodies[-2]["messages"]
    assert run.session(path.stem).state.status is Status.SOLVED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_worktree_and_a_session_to_resume(command, run, repo, upstream, number):
    held = upstream.say("never")
    held.gate = threading.Event()
    fast = upstream.use("run_command", command="touch here; sleep 60")
    upstream.script = lambda body, headers: fast if headers["x-sapwood-session"].endswith("b1") else held
    try:
        process = command.start("-p", "repair", "--tests", QUICK, "--branches", "3", "--profile", "full")
        until(lambda: list(command.temporary.glob("sapwood-*/b1/*/here")))
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130, out + err
        assert "Traceback" not in err
        assert upstream.closed.wait(5)
    finally:
        held.gate.set()
    assert list(command.temporary.iterdir()) == []
    assert not (repo / "here").exists()
    [parent] = [path for path in (repo / ".sapwood" / "sessions").glob("*.jsonl") if ".b" not in path.name]
    assert run.session(parent.stem).state.status is Status.INTERRUPTED
    upstream.script = lambda body, headers: (
        upstream.say("done") if body["messages"][-1]["role"] == "tool" else edit(upstream)
    )
    assert run.resume(parent.stem).status is Status.SOLVED


def test_a_session_in_use_is_not_run_by_another_process(command, run, repo, upstream):
    held = upstream.say("never")
    held.gate = threading.Event()
    upstream.turns = [held]
    try:
        process = command.start("-p", "repair", "--tests", QUICK)
        assert upstream.asked.wait(20)
        [path] = (repo / ".sapwood" / "sessions").glob("*.jsonl")
        status, _, err = command("--resume", path.stem)
        assert (status, err.count("\n")) == (2, 1)
        assert "run by another process" in err
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        held.gate.set()


def test_help_imports_next_to_nothing():
    program = (
        "import sys, agents.cli.code; "
        "print([m for m in ('mcp', 'httpx', 'rich', 'anyio', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


@pytest.mark.parametrize("key", ["kéy", "k\ny", "k€y"])
def test_a_key_that_no_header_can_hold(repo, key):
    result = CliRunner().invoke(code, ["-p", "x", "--repo", str(repo)], env={"SAPWOOD_API_KEY": key})
    assert result.exit_code == 2
    assert "$SAPWOOD_API_KEY" in result.output
    assert key not in result.output
