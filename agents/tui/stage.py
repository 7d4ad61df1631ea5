"""From what the agent reports to blocks of a transcript. Pieces of text are gathered and shown a few times a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Protocol

from agents.state import Turn
from agents.stream import Delta, Part
from agents.toolbox import ToolResult
from agents.tui.blocks import Block, Notice
from agents.tui.call import Call, Outcome
from agents.tui.footer import percent
from agents.tui.ink import Ink
from agents.tui.prose import Prose, Streamed, Thought
from agents.view import Quiet, branch_of


class Canvas(Protocol):
    """Where blocks are shown, in the order they come."""

    def add(self, block: Block) -> None: ...
    def changed(self, block: Block) -> None: ...


class Stage(Quiet):
    """A `View` of one conversation. Sub-agents are a line a turn: their texts would run into one another.

    `main` is the session's id, `soon` asks for a `flush` in a moment, `spent` hears of each turn of the session.
    """

    def __init__(
        self, canvas: Canvas, main: Callable[[], str], soon: Callable[[], None], spent: Callable[[], None]
    ) -> None:
        self._canvas, self._main, self._soon, self._spent = canvas, main, soon, spent
        self._deltas: list[Delta] = []
        self._progress: list[tuple[str, str]] = []
        self._stream: Streamed | None = None
        self._calls: list[Call] = []
        """Those without a result, oldest first."""
        self._before: Turn | None = None

    def delta(self, session: str, delta: Delta) -> None:
        if session == self._main():
            self._deltas.append(delta)
            self._soon()

    def progress(self, name: str, text: str) -> None:
        self._progress.append((name, text))
        self._soon()

    def turn(self, session: str, turn: Turn) -> None:
        self.flush()
        if session != self._main():
            self._canvas.add(Notice(f"{branch_of(session)} turn {turn.number}{_reused(turn)}: {_did(turn)}"))
            return
        self._end_stream()
        if lost := _lost(self._before, turn):
            self._canvas.add(Notice(f"{lost:,} tokens of the turn before were computed again: /why", Ink.WARN))
        self._before = turn
        self._spent()

    def calling(self, session: str, name: str, arguments: Mapping[str, Any]) -> None:
        self.flush()
        if session == self._main():
            call = self._call(name, Outcome.COMING)
            call.begin(arguments)
            self._canvas.changed(call)

    def tool(self, session: str, name: str, result: ToolResult) -> None:
        self.flush()
        if session == self._main():
            call = self._call(name, Outcome.RUNNING, Outcome.COMING)
            call.end(result.text, result.is_error, result.data)
            self._calls.remove(call)
            self._canvas.changed(call)

    def verdict(self, session: str, verdict: str) -> None:
        whose = "" if session == self._main() else f"{branch_of(session)} "
        self.insert(Notice(f"{whose}tests: {verdict}", Ink.GOOD if verdict == "passed" else Ink.WARN))

    def note(self, text: str) -> None:
        self.insert(Notice(text))

    def insert(self, block: Block) -> None:
        """Show something of another kind; text that streams goes on behind it."""
        self.flush()
        self._end_stream()
        self._canvas.add(block)

    def rest(self) -> None:
        """The session rests: nothing that was begun goes on."""
        self.flush()
        self._end_stream()
        for call in self._calls:
            call.drop()
            self._canvas.changed(call)
        self._calls.clear()

    def flush(self) -> None:
        """Show what came since the last time."""
        deltas, self._deltas = self._deltas, []
        for part, group in groupby(deltas, lambda delta: delta.part):
            if part is Part.CALL:
                for delta in group:
                    self._open_call(delta.text)
            else:
                self._write(part, "".join(delta.text for delta in group))
        said, self._progress = self._progress, []
        for name, pieces in groupby(said, lambda piece: piece[0]):
            self._say(name, "".join(text for _, text in pieces))

    def _write(self, part: Part, text: str) -> None:
        if part is Part.ARGUMENTS:
            if self._calls:
                self._calls[-1].write(text)
                self._canvas.changed(self._calls[-1])
            return
        kind = Prose if part is Part.TEXT else Thought
        if not isinstance(self._stream, kind):
            self._end_stream()
            text = text.lstrip("\n")
            if not text:
                return
            self._stream = kind()
            self._canvas.add(self._stream)
        self._stream.add(text)
        self._canvas.changed(self._stream)

    def _say(self, name: str, text: str) -> None:
        running = [call for call in self._calls if call.name == name and call.outcome is Outcome.RUNNING]
        if running:
            running[-1].say(text)
            self._canvas.changed(running[-1])

    def _open_call(self, name: str) -> Call:
        self._end_stream()
        call = Call(name)
        self._calls.append(call)
        self._canvas.add(call)
        return call

    def _call(self, name: str, *outcomes: Outcome) -> Call:
        found = (call for call in self._calls if call.name == name and call.outcome in outcomes)
        return next(found, None) or self._open_call(name)

    def _end_stream(self) -> None:
        if isinstance(self._stream, Thought):
            self._stream.end()
            self._canvas.changed(self._stream)
        self._stream = None


def _lost(before: Turn | None, turn: Turn) -> int:
    """Tokens of the turn before that were there and had to be computed again, if they are most of it."""
    if before is None or before.prompt is None or turn.cached is None or before.calls == ("(summary)",):
        return 0
    lost = before.prompt - turn.cached
    return lost if 2 * lost > before.prompt else 0


def _reused(turn: Turn) -> str:
    return f", {percent(turn.cached, turn.prompt)}% reused" if turn.cached is not None and turn.prompt else ""


def _did(turn: Turn) -> str:
    return ", ".join(turn.calls) or "answer"
