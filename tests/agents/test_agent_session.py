"""The session file: what was written is what is folded, whatever happened to the file's end."""

from __future__ import annotations

import errno
import json
import os

import pytest

from agents.events import BadSession, Event, Kind, decode, encode
from agents.session import Session, folder_of
from agents.state import Status

OPENED = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "tools": []}
COST = {"prompt": 10, "cached": 8, "completion": 3, "ttft": 0.1, "seconds": 0.5}


def reply(*calls, finish="tool_calls"):
    wire = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in calls]
    message = {"role": "assistant", "content": "a"} | ({"tool_calls": wire} if wire else {})
    return {"message": message, "finish_reason": finish, "cost": COST}


@pytest.fixture
def session(tmp_path):
    return Session.open(folder_of(tmp_path), dict(OPENED))


def again(session):
    return Session.load(session.path.parent, session.state.id)


def test_loading_folds_to_the_same_state(session):
    session.append(Kind.REPLY, **reply("c1", "c2"))
    session.append(Kind.RESULT, call="c1", text="one \ud800", is_error=False, data=None, fault=None)
    loaded = again(session)
    assert loaded.state == session.state
    assert [call.id for call in loaded.state.pending] == ["c2"]
    assert loaded.state.messages[-1] == {"role": "tool", "tool_call_id": "c1", "content": "one \ud800"}
    assert loaded.state.turns[0].computed == 2


@pytest.mark.parametrize("keep", range(1, 40, 6))
def test_a_torn_last_line_is_cut_away(session, keep):
    before = session.path.read_bytes()
    session.append(Kind.REPLY, **reply("c1"))
    torn = session.path.read_bytes()[: len(before) + keep]
    session.path.write_bytes(torn)
    loaded = again(session)
    assert session.path.read_bytes() == before
    loaded.append(Kind.REPLY, **reply("c1"))
    assert [call.id for call in again(session).state.pending] == ["c1"]


def test_a_bad_line_in_the_middle_is_named(session):
    session.append(Kind.MESSAGE, message={"role": "user", "content": "x"})
    lines = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(lines[0] + b"{nonsense}\n" + lines[1])
    with pytest.raises(BadSession, match="line 2"):
        again(session)


@pytest.mark.parametrize("text", ["", "[]\n", '{"type":"reply"}\n', '{"type":"open","id":"x"}\n'])
def test_a_file_that_is_no_session_is_an_error_not_a_crash(session, text):
    session.path.write_text(text)
    with pytest.raises(BadSession):
        again(session)


@pytest.mark.parametrize("identity", ["nothing", "../x", "a/b", "", "/etc/passwd"])
def test_unknown_ids_and_paths_are_refused(session, identity):
    with pytest.raises(BadSession, match="no session"):
        Session.load(session.path.parent, identity)


def test_a_newer_version_is_refused(session):
    line = json.loads(session.path.read_text())
    session.path.write_text(json.dumps(line | {"version": 99}) + "\n")
    with pytest.raises(BadSession, match="version 99"):
        again(session)


def test_a_fork_shares_what_was_before_and_nothing_after(session):
    session.append(Kind.REPLY, **reply(finish="stop"))
    child = session.fork("b1")
    session.append(Kind.MESSAGE, message={"role": "user", "content": "parent only"})
    child.append(Kind.MESSAGE, message={"role": "user", "content": "child only"})
    loaded = Session.load(session.path.parent, f"{session.state.id}.b1")
    assert loaded.state == child.state
    assert loaded.state.parent == session.state.id
    assert [m["content"] for m in loaded.state.messages] == ["s", "u", "a", "child only"]
    assert loaded.state.turns[0].inherited
    grandchild = loaded.fork("b2")
    assert Session.load(session.path.parent, grandchild.state.id).state == grandchild.state
    assert len(child.path.read_text().splitlines()) == 2  # the parent's events are not copied


def test_resuming_clears_the_counters_but_not_the_history(session):
    session.append(Kind.REPLY, **reply("c1", finish="length"))
    session.append(Kind.RESULT, call="c1", text="", is_error=True, data=None, fault="cut")
    assert session.state.faults == 1
    session.rest(Status.NOT_SOLVED, "why")
    session.append(Kind.RESUME)
    assert (session.state.status, session.state.faults, session.state.turns_used) == (Status.RUNNING, 0, 0)
    assert len(session.state.messages) == 4


def test_events_are_one_ascii_line():
    event = Event(Kind.MESSAGE, {"message": {"role": "user", "content": "é\n\u2028\ud800"}}, 1.5)
    line = encode(event)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode(line) == event


def test_the_session_folder_is_hidden_from_git(tmp_path):
    folder_of(tmp_path)
    assert (tmp_path / ".sapwood" / ".gitignore").read_text() == "*\n"


def test_a_full_disk_leaves_no_half_line(session, monkeypatch):
    whole, write, room = session.path.read_bytes(), os.write, [10]

    def full(descriptor, data):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: room.pop()])

    monkeypatch.setattr("agents.session.os.write", full)
    with pytest.raises(OSError, match="No space"):
        session.append(Kind.RESUME)
    assert session.path.read_bytes() == whole
