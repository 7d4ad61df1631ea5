"""The slash commands, the input line, and the questions before a tool runs."""

from __future__ import annotations

import anyio
import pytest

from agents.state import Status
from agents.tui.approval import Approval
from agents.tui.question import Answer, Question
from tests.agents.tui.conftest import Clock


async def answer(talk):
    talk.text("It adds.")
    talk.turn(1000, 0)
    talk.turn(1200, 1000)


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("/help", ["/compact", "go on from a summary", "Ctrl-O"]),
        ("/diff", ["--- a/x.py", "+new"]),
        ("/undo", ["Took back the edit of x.py."]),
        ("/why", ["90 of 100 reused", "BREAK timestamp"]),
        ("/fork 4", ["This is 20260102-101500-ab12cd.f1 from here on"]),
        ("/model", ["● scripted", "○ other"]),
        ("/model other", ["other answers from here on", "○ ready other"]),
        ("/model gone", ["There is no model gone. There are: scripted, other."]),
        ("/tools", ["edit_file Replace one exact piece of text.", "run_tests Run the tests."]),
        ("/compact", ["9 messages are 4 now"]),
        ("/cost", ["cached 1,000 45% of the prompts", "computed 1,200"]),
        ("/nothing", ["There is no /nothing. There are: /help, /diff"]),
        ("/undo it", ["/undo takes nothing after it."]),
        ("/fork soon", ["/fork takes the number of an event"]),
    ],
)
def test_command(drive, command, seen):
    async def test(terminal):
        await terminal.enter("what does it do?")
        await terminal.until("○ ready")
        await terminal.enter(command)
        for text in seen:
            await terminal.until(lambda: text in " ".join(terminal.text.split()))  # noqa: B023
        assert terminal.talk.said == ["what does it do?"]

    drive(test, answer, size=(100, 50))


def test_commands_before_anything_was_said(drive):
    async def test(terminal):
        terminal.talk.reasons, terminal.talk.patch = [], ""
        for command, seen in (
            ("/cost", "nothing was used"),
            ("/tools", "known as soon as"),
            ("/why", "No turn yet"),
            ("/diff", "Nothing is changed"),
        ):
            await terminal.enter(command)
            await terminal.until(seen)

    drive(test)


def test_quit(drive):
    async def test(terminal):
        await terminal.enter("/quit")
        await terminal.until(lambda: terminal.app._exit)

    drive(test)


def test_a_question_of_the_user_does_not_wait_for_the_turn(drive):
    gate = anyio.Event()

    async def script(talk):
        talk.text("still ")
        await gate.wait()
        talk.text("going on")

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("still")
        await terminal.enter("/why")
        await terminal.until("90 of 100 reused")
        gate.set()
        await terminal.until("going on")
        assert terminal.text.index("90 of 100") < terminal.text.index("going on")

    drive(test, script)


def test_a_command_that_fails_is_a_line(drive):
    async def test(terminal):
        async def broken():
            raise OSError("no answer from the gateway")

        terminal.talk.why = broken
        await terminal.enter("/why")
        await terminal.until("no answer from the gateway")
        await terminal.enter("/cost")
        await terminal.until("nothing was used")

    drive(test)


def test_tab_completes_commands_and_models(drive):
    async def test(terminal):
        await terminal.type("/co")
        await terminal.until("/compact")
        assert "/cost" in terminal.text
        assert "/help  " not in terminal.text
        await terminal.type("m")
        await terminal.press("tab")
        assert terminal.app.prompt.text == "/compact"
        terminal.app.prompt.put("/mo")
        await terminal.press("tab")
        await terminal.until(lambda: terminal.app.prompt.models != [])
        await terminal.press("o", "tab")
        assert terminal.app.prompt.text == "/model other"

    drive(test)


def test_arrows_bring_back_what_was_typed(drive):
    async def test(terminal):
        for text in ("first", "second"):
            await terminal.enter(text)
            await terminal.until(lambda: not terminal.app._work.is_busy)
        await terminal.type("draft")
        shown = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await terminal.press(key)
            shown.append(terminal.app.prompt.text)
        assert shown == ["second", "first", "first", "second", "draft", "draft"]

    drive(test)


def test_a_message_of_several_lines(drive):
    async def test(terminal):
        await terminal.type("ab")
        await terminal.press("ctrl+j", "c", "shift+enter", "d", "up", "up", "up", "enter")
        await terminal.until(lambda: terminal.talk.said != [])
        assert terminal.talk.said == ["ab\nc\nd"]

    drive(test)


def asks(question, given):
    async def script(talk):
        given.append(await talk.ask(question))
        talk.text("went on")

    return script


COMMAND = Question("run_command", {"command": "pytest -q\nrm -rf build", "timeout": 60}, "pytest *")


@pytest.mark.parametrize(
    ("key", "word"), [("y", Answer.YES), ("n", Answer.NO), ("a", Answer.ALWAYS), ("escape", Answer.NO)]
)
def test_a_question_shows_all_and_takes_a_key(drive, key, word):
    given = []

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("◆ waiting for you")
        for seen in ("Allow run_command?", "  $ pytest -q", "    rm -rf build", "timeout 60", "a always  pytest *"):
            assert seen in terminal.text
        await terminal.press("x", key)
        await terminal.until("went on")
        assert given == [word]
        assert "Allow" not in terminal.text
        assert terminal.app.prompt.has_focus

    drive(test, asks(COMMAND, given))


def test_an_edit_is_asked_as_a_diff_with_what_the_diff_does_not_say(drive):
    given = []
    question = Question("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b", "mode": "0777"}, "")

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("+a + b")
        for seen in ("--- a/calc.py", "-a - b", "mode 0777"):
            assert seen in terminal.text
        assert "always" not in terminal.text
        await terminal.press("a")  # there is no pattern to remember
        assert given == []
        await terminal.press("y")
        await terminal.until("went on")

    drive(test, asks(question, given))


def test_a_long_question_can_be_read_to_its_end(drive):
    given = []
    question = Question("write_file", {"path": "x", "content": "\n".join(f"row {n}" for n in range(300))}, "")

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("+row 1")
        assert "y yes" in terminal.text
        for _ in range(40):
            await terminal.press("pagedown")
        await terminal.until("+row 299")

    drive(test, asks(question, given), size=(60, 24))


def test_keys_that_were_meant_for_something_else_do_not_answer(drive):
    clock, given = Clock(), []

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("Allow run_command?")
        await terminal.press("y")
        assert given == []
        clock.now += 1
        await terminal.press("y")
        await terminal.until("went on")
        assert given == [Answer.YES]

    drive(test, asks(COMMAND, given), grace=0.4, clock=clock)


def test_who_is_typing_is_not_interrupted_by_a_question(drive):
    gate, given = anyio.Event(), []

    async def script(talk):
        talk.text("one moment")
        await gate.wait()
        given.append(await talk.ask(COMMAND))
        talk.text("went on")

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("one moment")
        await terminal.type("wh")
        gate.set()
        await terminal.until("Tab goes to the question")
        await terminal.type("y")
        assert terminal.app.prompt.text == "why"
        assert given == []
        await terminal.press("tab", "y")
        await terminal.until("went on")

    drive(test, script)


def test_ctrl_c_takes_a_question_away(drive):
    given = []

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("Allow run_command?")
        await terminal.press("ctrl+c")
        await terminal.until("■ stopped")
        assert given == []
        assert not terminal.app.query(Approval)
        assert terminal.talk.state.status is Status.INTERRUPTED

    drive(test, asks(COMMAND, given))


def test_two_questions_are_asked_one_after_the_other(drive):
    given = []

    async def script(talk):
        async with anyio.create_task_group() as group:
            for name in ("one", "two"):
                group.start_soon(asks(Question(name, {"x": 1}, ""), given), talk)

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("Allow one?")
        assert "Allow two?" not in terminal.text
        await terminal.press("n")
        await terminal.until("Allow two?")
        await terminal.press("y")
        await terminal.until("○ ready")
        assert given == [Answer.NO, Answer.YES]

    drive(test, script)
