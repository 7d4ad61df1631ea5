"""Talking to a session: what streams in, what waits, what stops, what goes wrong."""

from __future__ import annotations

import anyio
import pytest

from agents.model import ModelError
from agents.state import State, Status
from tests.agents.tui.conftest import Clock


async def answer(talk):
    talk.text("It ", "adds.")
    talk.turn()


def held(gate, *pieces):
    """A turn that says something and then takes its time."""

    async def script(talk):
        talk.text(*pieces or ("working on it",))
        await gate.wait()
        talk.turn()

    return script


def test_text_is_seen_while_it_streams(drive):
    gate = anyio.Event()

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("first words")
        assert "● working" in terminal.text
        assert "no turn yet" in terminal.text
        gate.set()
        await terminal.until("○ ready")
        assert "▌ go" in terminal.text
        assert "90% reused" in terminal.text

    drive(test, held(gate, "first ", "words"))


def test_what_is_typed_meanwhile_is_sent_when_it_rests(drive):
    gate = anyio.Event()

    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("working on it")
        await terminal.enter("two")
        await terminal.enter("/undo")
        await terminal.until("sent when it rests (2 waiting)")
        assert terminal.talk.said == ["one"]
        gate.set()
        await terminal.until("Took back the edit")
        assert terminal.talk.said == ["one", "two"]
        assert terminal.talk.done == ["undo"]
        assert "sent when it rests" not in terminal.text

    drive(test, held(gate), answer)


def test_ctrl_c_stops_the_turn_and_gives_back_what_waited(drive):
    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("working on it")
        await terminal.enter("two")
        await terminal.press("ctrl+c")
        await terminal.until("■ stopped")
        assert terminal.talk.state.status is Status.INTERRUPTED
        assert terminal.app.prompt.text == "two"
        await terminal.press("enter")
        await terminal.until("It adds.")
        assert terminal.talk.said == ["one", "two"]

    drive(test, held(anyio.Event()), answer)


def test_an_empty_line_goes_on_where_it_stopped(drive):
    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("working on it")
        await terminal.press("ctrl+c")
        await terminal.until("■ stopped")
        await terminal.press("enter")
        await terminal.until("It adds.")
        assert terminal.talk.done == ["resume"]
        await terminal.press("enter")  # at rest there is nothing to go on with
        assert terminal.talk.done == ["resume"]

    drive(test, held(anyio.Event()), answer)


def test_ctrl_c_twice_leaves_after_the_turn_was_stopped(drive):
    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("working on it")
        await terminal.press("ctrl+c", "ctrl+c")
        await terminal.until(lambda: terminal.app._exit)
        assert terminal.talk.state.status is Status.INTERRUPTED

    drive(test, held(anyio.Event()))


def test_ctrl_c_on_an_idle_session_asks_for_a_second_one(drive):
    clock = Clock()

    async def test(terminal):
        await terminal.type("half a thought")
        await terminal.press("ctrl+c")
        await terminal.until("Ctrl-C once more leaves")
        assert terminal.app.prompt.text == ""
        clock.now += 2.5
        await terminal.press("ctrl+c")
        assert not terminal.app._exit
        clock.now += 1
        await terminal.press("ctrl+c")
        await terminal.until(lambda: terminal.app._exit)

    drive(test, clock=clock)


def test_ctrl_d_leaves_on_an_empty_line_only(drive):
    async def test(terminal):
        await terminal.type("ab")
        await terminal.press("left", "ctrl+d")
        assert terminal.app.prompt.text == "a"
        assert not terminal.app._exit
        await terminal.press("backspace", "ctrl+d")
        await terminal.until(lambda: terminal.app._exit)

    drive(test)


@pytest.mark.parametrize("error", [ModelError("no answer from http://127.0.0.1:1/v1"), KeyError("x")])
def test_an_error_is_a_line_and_the_session_goes_on(drive, error):
    async def broken(talk):
        talk.write_call("edit_file", '{"path"')
        raise error

    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("KeyError: 'x'" if isinstance(error, KeyError) else "no answer from http://")
        await terminal.until("edit_file  not run")
        assert "Traceback" not in terminal.text
        await terminal.enter("again")
        await terminal.until("It adds.")

    drive(test, broken, answer)


def test_why_a_session_came_to_rest_is_told(drive):
    async def full(talk):
        talk.state.status, talk.state.reason = Status.BUDGET, "the context is full"

    async def solved(talk):
        return Status.SOLVED

    async def test(terminal):
        await terminal.enter("one")
        await terminal.until("the context is full. Enter goes on.")
        await terminal.enter("two")
        await terminal.until("Done, and the tests pass.")

    drive(test, full, solved)


def test_a_resumed_session_shows_what_was_said(drive):
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "calc.py"}'}}
    messages = [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "Facts about the repository. The task: repair"},
        {"role": "assistant", "content": None, "reasoning_content": "hm hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
        {"role": "assistant", "content": "It subtracts."},
    ]
    opened = {"model": "scripted", "task": "repair", "tools": []}
    state = State(id="s", opened=opened, messages=messages, status=Status.INTERRUPTED)

    async def test(terminal):
        await terminal.until("Enter goes on where it stopped")
        for seen in ("▌ repair", "thought, 2 words", "✓ read_file  calc.py  2 lines", "It subtracts."):
            assert seen in terminal.text
        assert "You are" not in terminal.text
        assert "Facts" not in terminal.text
        await terminal.press("enter")
        await terminal.until("It adds.")
        assert terminal.talk.done == ["resume"]

    drive(test, answer, state=state)


def test_a_first_message_is_said_at_once(drive):
    async def test(terminal):
        await terminal.until("It adds.")
        assert terminal.talk.said == ["explain add"]

    drive(test, answer, first="explain add")
