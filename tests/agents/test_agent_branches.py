"""Branches: one shared prefix, the tests pick, and the user's folder sees only the winner."""

from __future__ import annotations

import glob
import subprocess
import sys
import tempfile
import threading

import pytest

from agents import branches
from agents.events import BadSession
from agents.session import Session, folder_of
from agents.state import Status

GOOD = "def add(a, b):\n    return a + b"
BAD = "def add(a, b):\n    return a * b"


def branch(headers):
    return headers["x-sapwood-session"].partition(".")[2]


def edit_by_branch(upstream, answers, otherwise="a * b"):
    """Each branch replaces `a - b` by its own answer and says that it is done; a Reply is given as it is."""

    def script(body, headers):
        answer = answers.get(branch(headers), otherwise)
        if not isinstance(answer, str):
            return answer
        edited = body["messages"][-1]["role"] == "tool"
        return upstream.say("done") if edited else upstream.use("edit_file", path="calc.py", old="a - b", new=answer)

    upstream.script = script


def quick(run, count):
    """Branches with a judge that answers sooner than pytest, so nothing to share but the opening."""
    return run(branches=count, profile="full", tests="grep -q 'a + b' calc.py")


def by_branch(upstream, answers, otherwise=BAD):
    """Shared turn: run the tests. Then each branch replaces the function by its own answer."""

    def script(body, headers):
        if not branch(headers):
            return upstream.use("run_tests")
        return upstream.use("replace_function", code=answers.get(branch(headers), otherwise))

    upstream.script = script


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    """So that a worktree left behind by these tests, and only by these, is seen."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert glob.glob(str(place / "sapwood-*")) == []


@pytest.fixture
def dirty(repo):
    """The repository with a commit, an uncommitted change and an untracked file."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], cwd=repo, check=True)
    (repo / "calc.py").write_text((repo / "calc.py").read_text() + "\n\nMINE = 1\n")
    (repo / "notes").write_text("mine too\n")
    return repo


def race(run, count=4, **options):
    return run("Repair the code.", branches=count, seed=10, **{"profile": "small", **options})


def test_the_one_branch_that_passes_wins(run, dirty, upstream):
    by_branch(upstream, {"b2": GOOD})
    ended = race(run)
    assert ended.status is Status.SOLVED
    assert ended.winner == f"{ended.session}.b2"
    assert (dirty / "calc.py").read_text() == f"{GOOD}\n\n\ndef twice(a):\n    return a + a\n\n\nMINE = 1\n"
    assert (dirty / "notes").read_text() == "mine too\n"
    assert "+    return a + b" in ended.diff
    assert "MINE" not in "".join(line for line in ended.diff.splitlines() if line[0] in "+-")
    tracked = subprocess.run(["git", "worktree", "list"], cwd=dirty, capture_output=True, text=True, check=True)
    assert len(tracked.stdout.splitlines()) == 1


def test_the_prefix_is_asked_once_and_shared_by_all(run, upstream):
    by_branch(upstream, {"b2": GOOD})
    everyone, inner = threading.Barrier(4), upstream.script

    def script(body, headers):
        if branch(headers) and len(body["messages"]) == len(upstream.bodies[1]["messages"]):
            everyone.wait(10)  # no branch is answered before all have asked
        return inner(body, headers)

    upstream.script = script
    ended = race(run)
    shared = [body for body, session in zip(upstream.bodies, upstream.sessions, strict=True) if "." not in session]
    firsts = {}
    for body, session in zip(upstream.bodies, upstream.sessions, strict=True):
        if "." in session:
            firsts.setdefault(session, body)
    assert len(shared) == 1
    assert len(firsts) == 4
    assert len({str(body["messages"]) for body in firsts.values()}) == 1
    assert {body["seed"] for body in firsts.values()} == {11, 12, 13, 14}
    assert all(body["tools"] == shared[0]["tools"] for body in firsts.values())
    assert [turn.number for turn in ended.turns["b2"]] == [2]


def test_no_branch_passes_and_nothing_is_changed(run, repo, upstream):
    before = (repo / "calc.py").read_text()
    edit_by_branch(upstream, {})
    ended = quick(run, 2)
    assert ended.status is Status.NOT_SOLVED
    assert ended.diff == ""
    assert (repo / "calc.py").read_text() == before


def test_the_winner_ends_the_others_and_closes_their_streams(run, upstream):
    held = upstream.say("never")
    held.gate = threading.Event()
    edit_by_branch(upstream, {"b1": "a + b"}, otherwise=held)
    try:
        ended = quick(run, 3)
        assert ended.status is Status.SOLVED
        assert ended.branches == {"b1": "solved", "b2": "cancelled", "b3": "cancelled"}
        assert upstream.closed.wait(5)
    finally:
        held.gate.set()


def test_a_branch_that_breaks_does_not_break_the_others(run, upstream):
    edit_by_branch(upstream, {"b3": "a + b"}, otherwise=upstream.refuse(400))
    assert quick(run, 3).branches == {"b1": "model_failed", "b2": "model_failed", "b3": "solved"}


def test_the_model_failing_everywhere_is_its_own_state(run, upstream):
    edit_by_branch(upstream, {}, otherwise=upstream.refuse(400))
    ended = quick(run, 2)
    assert ended.status is Status.MODEL_FAILED
    edit_by_branch(upstream, {"b4": "a + b"})  # new branches have new names and seeds
    assert run.resume(ended.session).winner == f"{ended.session}.b4"


def test_a_patch_that_no_longer_fits_is_kept_and_said(run, repo, upstream, monkeypatch):
    edit_by_branch(upstream, {}, otherwise="a + b")
    conclude = branches.conclude

    def edited_meanwhile(*arguments):
        (repo / "calc.py").write_text("def add(a, b):\n    return 5\n")
        conclude(*arguments)

    monkeypatch.setattr(branches, "conclude", edited_meanwhile)
    ended = quick(run, 2)
    assert ended.status is Status.NOT_SOLVED
    assert "does not fit" in ended.reason
    assert (repo / "calc.py").read_text() == "def add(a, b):\n    return 5\n"
    [patch] = folder_of(repo).glob("*.patch")
    assert "+    return a + b" in patch.read_text()


def test_each_branch_has_a_session_of_its_own(run, repo, upstream):
    edit_by_branch(upstream, {"b2": "a + b"})
    ended = quick(run, 2)
    child = Session.load(folder_of(repo), f"{ended.session}.b2")
    assert child.state.parent == ended.session
    assert child.state.status is Status.SOLVED
    lines = child.path.read_text().splitlines()
    assert lines[0].startswith('{"type":"fork"')
    assert '"type":"open"' not in child.path.read_text()
    with pytest.raises(BadSession, match=f"--resume {ended.session}"):
        run.resume(f"{ended.session}.b1")


def test_models_that_plan_share_a_run_of_the_tests(run, upstream):
    edit_by_branch(upstream, {"": upstream.use("run_tests")}, otherwise="a + b")
    inner = upstream.script

    def script(body, headers):
        # The last message before the branches' own is the result of the shared test run.
        fresh = len(body["messages"]) == 4
        return inner({**body, "messages": [{"role": "user"}]} if fresh else body, headers)

    upstream.script = script
    ended = run(branches=2, profile="full")
    assert ended.status is Status.SOLVED
    assert upstream.bodies[0]["tool_choice"] == {"type": "function", "function": {"name": "run_tests"}}
    assert "1 failed, 1 passed" in upstream.bodies[1]["messages"][-1]["content"]


def test_worktrees_run_the_tests_with_the_repository_s_own_python(run, repo, upstream):
    python = repo / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nOWN=1 exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (repo / ".gitignore").write_text(".venv\n")
    (repo / "test_own.py").write_text("import os\n\n\ndef test_own():\n    assert os.environ.get('OWN')\n")
    by_branch(upstream, {"b2": GOOD})
    assert race(run).status is Status.SOLVED


def test_a_second_round_learns_from_the_best_failure(run, upstream, repo):
    """Told behind the shared prefix, so that the new branches share as much as the old ones did."""

    def script(body, headers):
        told = any("Others tried this before you" in str(message["content"]) for message in body["messages"])
        if body["messages"][-1]["role"] == "tool":
            return upstream.say("done")
        right = "a + b" if told else {"b1": "a * b", "b2": "a / b"}[branch(headers)]
        return upstream.use("edit_file", path="calc.py", old="a - b", new=right)

    upstream.script = script
    report = run(branches=2, rounds=2, profile="full", tests="grep -q 'a + b' calc.py")
    assert report.status is Status.SOLVED
    assert report.winner.rpartition(".")[2] in ("b3", "b4")
    first = next(body for body in upstream.bodies if "Others tried" in str(body["messages"][-1]["content"]))
    assert first["messages"][:-1] == upstream.bodies[0]["messages"]
    assert "+    return a * b" in first["messages"][-1]["content"]
    assert "a + b" in (repo / "calc.py").read_text()
    assert report.as_json()["shares"]["b1"] == {"shared": 90, "private": 60}


def test_one_round_is_all_where_nothing_else_was_asked_for(run, upstream):
    edit_by_branch(upstream, {})
    assert quick(run, 2).status is Status.NOT_SOLVED
    assert {branch({"x-sapwood-session": session}) for session in upstream.sessions} == {"b1", "b2"}
