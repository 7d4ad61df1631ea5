"""`sapwood sessions`: list, show, export."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from agents.cli.sessions import sessions
from agents.events import decode


@pytest.fixture
def command(begin):
    def run(*words):
        done = CliRunner().invoke(sessions, [*words, "--repo", str(begin.repo)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return run


def contents(begin):
    return {path: path.read_bytes() for path in begin.repo.rglob("*") if path.is_file()}


def test_list(begin, command, branched):
    before = contents(begin)
    done = command("list")
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    label = [line[0].removeprefix(branched.id) for line in lines]
    assert label == ["", ".b1", ".b2"]
    assert lines[0][1:] == ["solved", "1", "100", "0", "%", "Repair", "add."]
    assert lines[2][1:] == ["solved", "2", "380", "83", "%"]
    assert contents(begin) == before


def test_a_broken_one_does_not_hide_the_others(begin, command, solved):
    solved.path.with_name("broken.jsonl").write_bytes(b"\x1b[2J\n")
    done = command("list")
    assert done.exit_code == 2
    assert solved.id in done.stdout
    assert done.stderr.startswith("Error: broken.jsonl, line 1: not a session event")
    assert len(done.stderr.splitlines()) == 1


def test_none_yet(begin, command):
    done = command("list")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 1)
    assert "no sessions in" in done.stdout
    assert contents(begin) == {}


def test_show(command, branched):
    done = command("show", branched.id)
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["cached", "72", "%", "of", "630", "prompt", "tokens"] in rows
    assert ["b2", "3", "230", "175", "55", "31", "ms", "4.0", "answers"] in rows
    assert ["b1", "cancelled", "1", "150", "140", "140", "10"] in rows


def test_show_a_branch_and_an_unfinished_one(command, branched, begin):
    assert "the tests pass" in command("show", branched.branches[1].id).stdout
    scribe = begin("still at it [bold]\x1b[2J")
    done = command("show", scribe.id)
    assert "unfinished" in done.stdout
    assert "still at it [bold]\\x1b[2J" in done.stdout


def test_export_messages(command, solved):
    done = command("export", solved.id, "--to", "messages")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["messages"] == solved.session.state.messages


def test_calls_without_a_result_are_said(command, begin):
    scribe = begin()
    scribe.turn("", [("run_tests", "{}")])
    done = command("export", scribe.id, "--to", "messages")
    assert done.exit_code == 0
    assert done.stderr == "note: the last reply's calls have no result yet: run_tests\n"


def test_export_html_to_a_file(command, solved, tmp_path, begin):
    before, out = contents(begin), tmp_path / "page.html"
    done = command("export", solved.id, "--to", "html", "--out", str(out))
    assert (done.exit_code, done.output) == (0, "")
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert contents(begin) == before


def test_export_events_of_a_branch_are_whole(command, branched):
    done = command("export", branched.branches[0].id, "--to", "events")
    kinds = [decode(line.encode()).kind for line in done.stdout.splitlines()]
    assert kinds == ["open", "ask", "reply", "call", "result", "fork", "ask", "reply", "call", "result", "status"]


@pytest.mark.parametrize("form", ["messages", "html", "events"])
@pytest.mark.parametrize("name", ["nobody", "../../etc/passwd", "cut"])
def test_what_cannot_be_read_is_one_line_and_2(command, begin, solved, form, name):
    solved.path.with_name("cut.jsonl").write_bytes(b'{"type":"reply"}\n')
    done = command("export", name, "--to", form)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert command("show", name).exit_code == 2


def test_a_place_that_cannot_be_written(command, solved, tmp_path):
    done = command("export", solved.id, "--to", "html", "--out", str(tmp_path / "no" / "page.html"))
    assert done.exit_code == 2
    assert "cannot write" in done.stderr


@pytest.mark.parametrize("words", [(), ("export", "x"), ("export", "x", "--to", "pdf"), ("show",)])
def test_usage_is_2(command, words):
    assert command(*words).exit_code == 2
