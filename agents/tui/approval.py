"""A person's word before a tool runs: the whole command or the change itself, and three keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll

from agents.tui import edits
from agents.tui.blocks import paint
from agents.tui.call import argument_lines
from agents.tui.ink import Ink, Line, Span, clean, clean_line, line
from agents.tui.panel import Panel
from agents.tui.question import Answer, Question
from agents.tui.wrap import wrapped

_AROUND = 12
"""Rows that are not its body."""


class Approval(Vertical, can_focus=True):
    """`answer` is set by a key. Keys of the first `grace` seconds do not count: they were meant for something else."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')"),
        Binding("n,escape", "answer('no')"),
        Binding("a", "answer('always')"),
        Binding("up", "scroll_body(-1)"),
        Binding("down", "scroll_body(1)"),
        Binding("pageup", "scroll_body(-10)"),
        Binding("pagedown", "scroll_body(10)"),
    ]

    def __init__(self, question: Question, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._question, self._grace, self._clock = question, grace, clock
        self._since = clock()
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        yield Panel(self._title)
        with VerticalScroll(can_focus=False):
            yield Panel(self._body)
        yield Panel(self._keys)

    def on_mount(self) -> None:
        self.fit(self.app.size.height)

    def fit(self, height: int) -> None:
        """Leave room for the line, the footer and the keys on a screen of that height; the rest can be scrolled to."""
        self.query_one(VerticalScroll).styles.max_height = max(height - _AROUND, 1)

    def action_answer(self, word: str) -> None:
        answer = Answer(word)
        if answer is Answer.ALWAYS and not self._question.pattern:
            return
        if self._clock() - self._since >= self._grace and not self.answer.done():
            self.answer.set_result(answer)

    def action_scroll_body(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _title(self, width: int) -> Sequence[Line]:
        name = Span(clean_line(self._question.name), Ink.NAME)
        return [(Span("◆ ", Ink.BAD), Span("Allow ", Ink.STRONG), name, Span("?", Ink.STRONG))]

    def _body(self, width: int) -> Sequence[Line]:
        return body(self._question, width)

    def _keys(self, width: int) -> Sequence[Line]:
        keys: list[Line] = [(Span("  y", Ink.GOOD), Span(" yes   "), Span("n", Ink.BAD), Span(" no"))]
        if self._question.pattern:
            first, *others = wrapped(clean(self._question.pattern), width - 12)
            keys.append((Span("  a", Ink.WARN), Span(" always  "), Span(first.text, Ink.CODE)))
            keys += [line(f"            {row.text}", Ink.CODE) for row in others]
        return keys


def body(question: Question, width: int) -> list[Line]:
    """What is to be allowed, nothing left out."""
    arguments = question.arguments
    if change := edits.proposed(arguments):
        return [*paint(change.diff, width), *argument_lines(_without(arguments, change.shows), width)]
    command = arguments.get("command")
    if not isinstance(command, str):
        return argument_lines(arguments, width)
    rows = wrapped(clean(command), width - 4)
    shown = [(Span("    " if at else "  $ ", Ink.DIM), Span(row.text, Ink.STRONG)) for at, row in enumerate(rows)]
    return [*shown, *argument_lines(_without(arguments, {"command"}), width)]


def _without(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}
