"""Session files read as they are: unfinished, torn, forked, broken. None is ever changed."""

from __future__ import annotations

import json

import pytest

from agents.events import BadSession, Kind
from agents.export.library import Library, final, fold
from agents.session import Session
from agents.state import Status


def folded(library, name):
    return final(library.read(name))


def test_a_session_folds_to_what_the_agent_has(begin, solved):
    state = folded(Library(begin.repo), solved.id)
    assert state == Session.load(solved.path.parent, solved.id).state
    assert state.status is Status.SOLVED


def test_a_torn_last_line_is_left_out_and_left_there(begin, solved):
    whole = solved.path.read_bytes()
    for cut in (1, 20, len(whole.splitlines()[-1])):
        solved.path.write_bytes(whole[:-cut])
        assert folded(Library(begin.repo), solved.id).status is Status.RUNNING
        assert solved.path.read_bytes() == whole[:-cut]


def test_a_branch_has_the_events_of_its_parent_up_to_the_fork(begin, branched):
    first, second = branched.branches
    library = Library(begin.repo)
    recorded = library.read(second.id)
    assert recorded.parent == branched.id
    assert [event.kind for event in recorded.events[: recorded.shared]][-1] is Kind.RESULT
    assert final(recorded) == Session.load(second.path.parent, second.id).state
    assert folded(library, first.id).status is Status.CANCELLED


def test_a_fork_of_a_fork(begin, branched):
    child = branched.branches[1].fork("f1")
    child.turn("more")
    library = Library(begin.repo)
    assert folded(library, child.id) == Session.load(child.path.parent, child.id).state
    assert library.branches(branched.id) == [f"{branched.id}.{label}" for label in ("b1", "b2", "b2.f1")]


def test_names_newest_first_each_with_its_branches_counted(begin):
    older = begin()
    for number in (10, 2, 1):
        older.session.fork(f"b{number}")
    newer = older.path.with_name("99990101-000000-aaaaaa.jsonl")
    newer.write_bytes(older.path.read_bytes())
    labels = [name.removeprefix(older.id) for name in Library(begin.repo).names()]
    assert labels == [newer.stem, "", ".b1", ".b2", ".b10"]


def test_a_repository_without_sessions_has_none_and_gets_no_folder(tmp_path):
    assert Library(tmp_path).names() == []
    assert list(tmp_path.iterdir()) == []


def test_results_of_an_evaluation_have_their_sessions_too(begin, solved, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").touch()
    solved.path.parent.rename(tmp_path / "out" / "sessions")
    assert Library(tmp_path / "out").names() == [solved.id]


def test_the_state_is_that_after_each_event(begin, solved):
    turns = [len(state.turns) for _, state in fold(Library(begin.repo).read(solved.id))]
    assert turns == sorted(turns)
    assert (turns[0], turns[-1]) == (0, 3)


BROKEN = {
    "empty": b"",
    "torn at once": b'{"type":"open","versio',
    "not json": b"hello\n",
    "no object": b"[1]\n",
    "unknown event": b'{"type":"dance"}\n',
    "other version": b'{"type":"open","at":1,"version":99,"id":"x"}\n',
    "no beginning": b'{"type":"ask","at":1}\n',
    "too deep": b'{"type":"open","x":' + b"[" * 200_000 + b"\n",
    "nothing in it": b'{"type":"open","at":1,"version":1}\n',
    "no messages": b'{"type":"open","at":1,"version":1,"id":"x","model":"m","messages":7}\n',
    "no text": b'{"type":"open","at":1,"version":1,"id":"x","model":"m","task":[],"messages":[]}\n',
    "no time": b'{"type":"open","at":"now","version":1,"id":"x","model":"m","messages":[{"role":"user"}]}\n',
    "no number": b'{"type":"open","at":NaN,"version":1,"id":"x","model":"m","messages":[{"role":"user"}]}\n',
    "no parent": b'{"type":"fork","at":1,"version":1,"id":"x","parent":"gone","event":1}\n',
    "its own parent": b'{"type":"fork","at":1,"version":1,"id":"x","parent":"x","event":1}\n',
    "a path for a parent": b'{"type":"fork","at":1,"version":1,"id":"x","parent":"../x","event":1}\n',
    "no event": b'{"type":"fork","at":1,"version":1,"id":"x","parent":"x"}\n',
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_one_line(begin, raw):
    path = begin().path.with_name("x.jsonl")
    path.write_bytes(raw)
    with pytest.raises(BadSession) as caught:
        folded(Library(begin.repo), "x")
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_bytes() == raw


def test_a_parent_that_lost_its_end_is_named(begin, branched):
    lines = branched.path.read_bytes().splitlines(keepends=True)
    branched.path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(BadSession, match="ends before the event"):
        Library(begin.repo).read(branched.branches[0].id)


@pytest.mark.parametrize(("field", "value"), [("prompt", "many"), ("ttft", None), ("seconds", float("inf"))])
def test_costs_that_nobody_can_count(begin, solved, field, value):
    lines = [json.loads(line) for line in solved.path.read_bytes().splitlines()]
    next(line for line in lines if line["type"] == "reply")["cost"][field] = value
    solved.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadSession, match=r"event \d+ \(reply\)"):
        folded(Library(begin.repo), solved.id)
