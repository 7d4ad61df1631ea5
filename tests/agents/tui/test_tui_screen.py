"""What is on the screen: folds, diffs, the footer, narrow terminals, and text that tries to steer the terminal."""

from __future__ import annotations

import re

import anyio
import pytest

from agents.tui.approval import Approval
from agents.tui.prose import Prose
from agents.tui.question import Question
from tests.agents.tui.fake import child_turn

DIFF = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b"
EVIL = "\x1b[2J\x1b[31mred\x07\r\x9b1m [bold]not bold[/bold] \u202edesrever\x00"
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


async def working(talk):
    talk.think("Let me look.\n", "It subtracts where it should add.")
    talk.text("I will repair `add`.")
    talk.call("read_file", "   1 | def add(a, b):\n   2 |     return a - b", path="calc.py")
    talk.turn(1000, 0)
    talk.call("edit_file", DIFF, path="calc.py", old="a - b", new="a + b")
    talk.call("run_tests", "1 failed", data={"outcome": "failed", "failed": 1, "passed": 2, "errors": 0})
    talk.call("run_command", "no such file\nat all", True, command="cat nothing")
    talk.turn(12_655, 12_345)


def test_reasoning_and_calls_are_one_line_until_opened(drive):
    async def test(terminal):
        await terminal.enter("repair it")
        await terminal.until("○ ready")
        rows = terminal.rows
        assert "▸ thought, 9 words" in rows
        assert "✓ read_file  calc.py  2 lines" in rows
        assert "✓ edit_file  calc.py  +1 -1" in rows
        assert "✗ run_tests  1 failed, 2 passed" in rows
        assert "✗ run_command  cat nothing  no such file at all" in rows
        assert "return a - b" not in terminal.text.replace("-    return a - b", "")  # only in the edit's diff
        await terminal.press("ctrl+o")
        await terminal.until("It subtracts where it should add.")
        assert "     1 | def add(a, b):" in terminal.rows
        assert "  old a - b" in terminal.rows
        await terminal.press("ctrl+o")
        await terminal.gone("It subtracts where")

    drive(test, working, size=(100, 60))


def test_a_fold_opens_by_key_and_by_click(drive):
    async def test(terminal):
        await terminal.enter("repair it")
        await terminal.until("○ ready")
        await terminal.press("tab", "up", "up", "up", "enter")  # from the newest call to read_file
        await terminal.until("     1 | def add(a, b):")
        await terminal.press("escape")
        assert terminal.app.prompt.has_focus
        row = terminal.rows.index("▸ thought, 9 words")
        await terminal.pilot.click("#transcript", offset=(3, row))
        await terminal.until("▾ thought, 9 words")
        assert "  Let me look." in terminal.rows

    drive(test, working, size=(100, 60))


def test_a_call_can_be_watched_from_its_first_character(drive):
    written, begun, said = anyio.Event(), anyio.Event(), anyio.Event()

    async def script(talk):
        talk.write_call("run_command", '{"command": ', '"make"}')
        await written.wait()
        talk.turn(calls=["run_command"])
        talk.begin_call("run_command", command="make")
        await begun.wait()
        talk.view.progress("run_command", "compiling a.c\ncompil")
        talk.view.progress("run_command", "ing b.c\n")
        await said.wait()
        talk.end_call("run_command", "all built\n[exit code 0]", data={"exit_code": 0})

    async def test(terminal):
        await terminal.enter("build it")
        await terminal.until("○ run_command  writing, 19 characters")
        written.set()
        await terminal.until("● run_command  make")
        begun.set()
        await terminal.until("  compiling b.c")
        said.set()
        await terminal.until("✓ run_command  make  exit code 0")
        assert "compiling" not in terminal.text

    drive(test, script)


def test_diffs_are_in_colour(drive):
    async def test(terminal):
        await terminal.enter("repair it")
        await terminal.until("○ ready")
        colours = {
            segment.text.strip(): segment.style.color.name
            for strip in terminal.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.color
        }
        assert colours["-    return a - b"] == "red"
        assert colours["+    return a + b"] == "green"

    drive(test, working)


def test_no_color_means_no_colour(drive, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def test(terminal):
        await terminal.enter("repair it")
        await terminal.until("○ ready")
        update = terminal.app.screen._compositor.render_update(full=True)
        out = update.render_segments(terminal.app.console)
        assert "return a + b" in out
        codes = {code for look in re.findall(r"\x1b\[([0-9;]*)m", out) for code in look.split(";")}
        assert codes <= {"0", "1", "2", "7", "39", "49"}  # bold, dim, reverse, the terminal's own colours

    drive(test, working)


def test_a_turn_that_reused_little_is_pointed_at(drive):
    async def script(talk):
        talk.turn(10_000, 9_000)
        talk.turn(10_500, 10_000)
        talk.turn(11_000, 500)

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("10,000 tokens of the turn before were computed again: /why")
        assert terminal.text.count("/why") == 1

    drive(test, script)


def test_sub_agents_are_a_line_a_turn(drive):
    async def script(talk):
        talk.write_call("spawn", "{}")
        talk.begin_call("spawn", tasks=["a"])
        child_turn(talk)
        talk.end_call("spawn", "s1 (answered): done")

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("s1 turn 1, 90% reused: read_file")
        await terminal.until("✓ spawn")

    drive(test, script)


@pytest.mark.parametrize("width", [40, 24, 100])
def test_every_width_shows_the_whole_and_what_was_reused(drive, width):
    async def test(terminal):
        await terminal.enter("repair it, please, and tell me in a long sentence what was wrong")
        await terminal.until("ready")
        assert all(len(row) <= width for row in terminal.rows)
        assert "98%" in terminal.text
        assert "12.3k" in terminal.text or "12,345" in terminal.text
        await terminal.enter("/help")
        await terminal.until("PgUp, PgDn")

    drive(test, working, size=(width, 50))


def test_a_resized_terminal_is_laid_out_again_and_stays_at_the_end(drive):
    async def script(talk):
        talk.text(*(f"line {number} of a long answer\n" for number in range(100)))
        talk.turn()

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("line 99 of a long answer")
        for size in ((30, 15), (120, 50), (60, 20)):
            await terminal.pilot.resize_terminal(*size)
            await terminal.until(lambda: len(terminal.rows) == size[1])  # noqa: B023
            await terminal.until("line 99 of a long")
        await terminal.press("pageup")
        await terminal.gone("line 99")

    drive(test, script)


def test_who_scrolled_up_is_left_there(drive):
    first, more = anyio.Event(), anyio.Event()

    async def script(talk):
        talk.text(*(f"line {number}\n" for number in range(100)))
        await first.wait()
        talk.text("and more\n" * 50)
        talk.turn()
        await more.wait()

    async def test(terminal):
        await terminal.enter("go")
        await terminal.until("line 99")
        await terminal.press("pageup", "pageup")
        await terminal.gone("line 99")
        seen = [row[:20].rstrip() for row in terminal.rows[:10]]
        first.set()
        await terminal.until("90% reused")
        assert [row[:20].rstrip() for row in terminal.rows[:10]] == seen
        more.set()

    drive(test, script)


def test_a_long_answer_is_not_laid_out_again_by_its_next_words(drive):
    async def script(talk):
        talk.text("x " * 20_000)
        talk.turn()
        talk.text("y " * 20_000)
        await talk.gate.wait()
        talk.text("the end")
        talk.turn()

    async def test(terminal):
        terminal.talk.gate = anyio.Event()
        await terminal.enter("go")
        await terminal.until("y y y")
        blocks = [block for block in terminal.app.transcript.blocks if isinstance(block, Prose)]
        before = [list(block.lines(terminal.app.transcript._columns)) for block in blocks]
        terminal.talk.gate.set()
        await terminal.until("the end")
        after = [block.lines(terminal.app.transcript._columns) for block in blocks]
        for old, new in zip(before, after, strict=True):
            assert all(one is other for one, other in zip(old[:-1], new, strict=False))

    drive(test, script)


def test_nothing_that_is_said_can_steer_the_terminal(drive):
    async def script(talk):
        talk.state.opened["model"] = EVIL
        talk.state.opened["tools"][0]["function"]["description"] = EVIL
        talk.patch, talk.reasons = f"+{EVIL}", [EVIL]
        talk.think(EVIL)
        talk.text(EVIL, f"```{EVIL}\n", f"# {EVIL}\n")
        talk.call(EVIL, EVIL, path=EVIL)
        talk.call("edit_file", f"{DIFF}\n+{EVIL}", **{EVIL: EVIL})
        talk.begin_call("run_command", command=EVIL)
        talk.view.progress("run_command", EVIL)
        talk.view.note(EVIL)
        talk.view.verdict(talk.state.id, EVIL)
        talk.turn(calls=[EVIL])
        child_turn(talk, name=EVIL)
        await talk.ask(Question(EVIL, {"command": EVIL, EVIL: EVIL}, EVIL))
        talk.state.reason = EVIL
        raise OSError(EVIL)

    async def test(terminal):
        def safe():
            assert not UNSAFE.search(terminal.text.replace("\n", ""))

        await terminal.enter(EVIL)
        await terminal.until(lambda: bool(terminal.app.query(Approval)))
        await terminal.until("always")
        safe()
        assert "[bold]not bold[/bold]" in terminal.text
        await terminal.press("y")
        await terminal.until("■ stopped")
        await terminal.press("ctrl+o")
        for command in ("/tools", "/why", "/diff", f"/{EVIL}", f"/model {EVIL}"):
            await terminal.enter(command)
        await terminal.until("There is no model")
        safe()
        assert "\\x1b[2J" in terminal.text

    drive(test, script, size=(120, 200))


def test_pasted_text_keeps_its_lines_and_loses_its_control_characters(drive):
    async def test(terminal):
        from textual.events import Paste

        terminal.app.post_message(Paste("one\r\ntwo\rthree\x1b[2J"))
        await terminal.until("three\\x1b[2J")
        await terminal.press("enter")
        await terminal.until(lambda: terminal.talk.said != [])
        assert terminal.talk.said == ["one\ntwo\nthree\\x1b[2J"]

    drive(test)


def test_selected_text_is_copied(drive):
    async def test(terminal):
        await terminal.enter("repair it")
        await terminal.until("○ ready")
        row = terminal.rows.index("  I will repair `add`.")
        await terminal.pilot.mouse_down("#transcript", offset=(2, row))
        await terminal.pilot.hover("#transcript", offset=(13, row))
        await terminal.pilot.mouse_up("#transcript", offset=(13, row))
        await terminal.press("ctrl+c")
        await terminal.until("copied")
        assert terminal.app.clipboard == "I will repai"[: len(terminal.app.clipboard)]
        assert terminal.app.clipboard.startswith("I will rep")
        assert not terminal.app._exit

    drive(test, working)
