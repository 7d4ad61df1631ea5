"""`sapwood eval` on a scripted model: what it says, what it keeps, how it ends, how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import xml.dom.minidom

import pytest
from click.testing import CliRunner

from agents import model
from agents.cli.evaluate import eval as command
from agents.evaluate.tasks import OURS, load
from agents.stack import SAPWOOD
from tests.agents.evaluate.solver import Solver
from tests.agents.front import gateway_before
from tests.agents.prefixes import breaks

SOME = ("flaky_fixture", "two_files", "unicode", "c_compile_error")
TASKS = load(OURS)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(model, "RETRY_DELAYS", (0.0, 0.0))


@pytest.fixture
def evaluate(upstream, tmp_path):
    def run(*names, arguments=(), url=None, out="out"):
        only = [part for name in names for part in ("--only", name)]
        given = [*only, "--base-url", url or upstream.url, "--out", str(tmp_path / out), *arguments]
        done = CliRunner().invoke(command, given)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    run.out = tmp_path / "out"
    return run


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def check_all_solved(evaluate, upstream, names):
    """Through a real gateway; what reaches the upstream and what the gateway counts say the same."""
    upstream.script = Solver(upstream, TASKS)
    with gateway_before(upstream.url) as front:
        status, out = evaluate(*names, url=front.url)
        assert status == 0, out
        assert front.count("requests", route="/v1/chat/completions", status="200") == len(upstream.raw)
        assert front.count("prefix_breaks") == 0
    able = [task.name for task in TASKS if (not names or task.name in names) and not task.missing]
    assert [line["task"] for line in lines(evaluate.out)] == able
    assert len(upstream.raw) == sum(line["turns"] for line in lines(evaluate.out))
    assert len(set(upstream.sessions)) == len(able)
    assert breaks(zip(upstream.sessions, upstream.raw, strict=True)) == []


def test_some_tasks_are_solved_and_no_prefix_breaks(evaluate, upstream):
    check_all_solved(evaluate, upstream, SOME)
    whole = json.loads((evaluate.out / "results.json").read_text())
    count = len(whole["results"])
    assert whole["summary"]["solved"] == whole["summary"]["attempts"] == count
    assert whole["summary"]["prompt"] == 100 * whole["summary"]["turns"]
    assert whole["summary"]["computed"] == 10 * whole["summary"]["turns"]
    assert (whole["settings"]["model"], whole["settings"]["profile"]) == ("scripted", "full")
    chart = xml.dom.minidom.parse(str(evaluate.out / "tokens.svg"))
    assert len(chart.getElementsByTagName("rect")) == 1 + 2 * count
    assert all((evaluate.out / "sessions" / f"{line['session']}.jsonl").is_file() for line in whole["results"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_tasks_are_solved_and_no_prefix_breaks(evaluate, upstream):
    check_all_solved(evaluate, upstream, ())


def test_branches_share_their_prefix_too(evaluate, upstream):
    solver = Solver(upstream, TASKS, run_tests=False)

    def script(body, headers):
        """The turn that branches share must run the tests; the play begins behind it."""
        if body["tool_choice"] != "auto":
            return upstream.use("run_tests")
        return solver(body, headers, skip=1)

    upstream.script = script
    status, out = evaluate("regex", arguments=["--branches", "2", "--seed", "1"])
    assert status == 0, out
    assert breaks(zip(upstream.sessions, upstream.raw, strict=True)) == []
    assert {turn["branch"] for turn in lines(evaluate.out)[0]["by_turn"]} > {"main"}


def test_not_all_is_1_and_the_agents_word_is_not_the_verdict(evaluate, upstream, tmp_path):
    tampered = upstream.use("write_file", path="test_regex.py", content="")
    upstream.turns = [tampered, upstream.say("done"), upstream.say("done"), upstream.say("done")]
    status, out = evaluate("regex")
    assert status == 1
    [line] = lines(evaluate.out)
    assert (line["solved"], line["status"]) == (False, "not_solved")
    assert line["why"] == "changed what was not to be changed: test_regex.py"
    assert "not solved" in out


def test_a_second_run_goes_on_where_the_first_was_broken_off(evaluate, upstream):
    upstream.script = Solver(upstream, TASKS, run_tests=False)
    assert evaluate("regex")[0] == 0
    asked = len(upstream.bodies)
    path = evaluate.out / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"task": "unic')  # and the line being written was torn
    status, out = evaluate("regex", "sort_key")
    assert (status, [line["task"] for line in lines(evaluate.out)]) == (0, ["regex", "sort_key"])
    assert "regex 1: " not in out
    assert all("leaderboard" in str(body["messages"][1]) for body in upstream.bodies[asked:])


def test_other_settings_are_not_mixed(evaluate, upstream):
    upstream.script = Solver(upstream, TASKS, run_tests=False)
    evaluate("regex")
    before = (evaluate.out / "results.jsonl").read_bytes()
    status, out = evaluate("regex", arguments=["--max-turns", "7"])
    assert status == 2
    assert "was made with max_turns 50: use another --out" in out
    assert (evaluate.out / "results.jsonl").read_bytes() == before


def test_a_model_that_fails_is_3_and_the_task_is_tried_again(evaluate, upstream):
    upstream.turns = [upstream.refuse(401, "key?")]
    status, out = evaluate("regex")
    assert status == 3
    assert "key?" in out
    assert not (evaluate.out / "results.jsonl").exists()
    upstream.script = Solver(upstream, TASKS, run_tests=False)
    assert evaluate("regex")[0] == 0


def test_nobody_there_is_3_in_one_line(evaluate):
    status, out = evaluate("regex", url="http://127.0.0.1:1/v1")
    assert (status, len(out.strip().splitlines())) == (3, 1)


def test_repeats_have_attempts_and_seeds_of_their_own(evaluate, upstream):
    upstream.script = Solver(upstream, TASKS, run_tests=False)
    assert evaluate("regex", arguments=["--repeat", "2", "--seed", "5"])[0] == 0
    assert [line["attempt"] for line in lines(evaluate.out)] == [1, 2]
    assert sorted({body["seed"] for body in upstream.bodies}) == [5, 1005]


def test_a_task_whose_compiler_is_missing_is_skipped_with_the_reason(evaluate, upstream, tmp_path):
    folder = tmp_path / "tasks"
    for name in ("regex", "c_logic"):
        shutil.copytree(OURS / name, folder / name)
    toml = folder / "c_logic" / "task.toml"
    toml.write_text(toml.read_text().replace('"cc"', '"no-such-compiler"'))
    upstream.script = Solver(upstream, TASKS, run_tests=False)
    status, out = evaluate(arguments=["--tasks", str(folder)])
    assert status == 0
    assert "c_logic: skipped, there is no no-such-compiler here" in out
    assert json.loads((evaluate.out / "results.json").read_text())["skipped"] == {"c_logic": "needs no-such-compiler"}


@pytest.mark.parametrize("arguments", [["--only", "nowhere"], ["--tasks", "/nowhere"], ["--base-url", "ftp://x"]])
def test_usage_is_2(evaluate, upstream, arguments):
    assert evaluate(arguments=arguments)[0] == 2
    assert upstream.bodies == []


def test_ctrl_c_keeps_what_is_done_and_leaves_nothing_behind(evaluate, upstream, tmp_path):
    solver, held, reached = Solver(upstream, TASKS, run_tests=False), upstream.say("never"), threading.Event()
    held.gate = threading.Event()

    def script(body, headers):
        if "leaderboard" not in str(body["messages"][1]):
            return solver(body, headers)
        reached.set()
        return held

    upstream.script = script
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    argv = [*SAPWOOD, "eval", "--only", "regex", "--only", "sort_key"]
    argv += ["--base-url", upstream.url, "--out", str(evaluate.out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(temporary)}, **pipes) as process:
        try:
            assert reached.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            held.gate.set()
            process.kill()
    assert (process.returncode, err) == (130, "")
    assert [line["task"] for line in lines(evaluate.out)] == ["regex"]
    assert json.loads((evaluate.out / "results.json").read_text())["summary"]["solved"] == 1
    assert "regex 1: solved" in out
    assert list(temporary.iterdir()) == []
