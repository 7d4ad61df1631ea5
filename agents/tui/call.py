"""A tool call in the transcript: one line, and behind it the arguments, what the tool says, and the result."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

from rich.cells import cell_len

from agents.cut import cut
from agents.tui import edits
from agents.tui.blocks import Block, paint
from agents.tui.ink import Ink, Line, Span, clean, clean_line, line
from agents.tui.wrap import clipped, wrapped

_TELLING = ("path", "command", "pattern", "query", "name", "url", "tests")
"""Arguments that say most about a call, the most telling first."""
_PREVIEW = 12
"""Lines of a diff that are seen without opening."""
_MOST = 30_000
"""Characters of a result that are kept for the screen."""
_SAID = 200
"""Lines of a running tool that are kept."""


class Outcome(Enum):
    """Mark and look of a call's line."""

    COMING = "○", Ink.DIM
    RUNNING = "●", Ink.WARN
    DONE = "✓", Ink.GOOD
    FAILED = "✗", Ink.BAD
    NEVER = "–", Ink.DIM


class Call(Block):
    gap = False
    foldable = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.outcome = Outcome.COMING
        self._written = 0
        self._arguments: Mapping[str, Any] = {}
        self._said: deque[str] = deque([""], maxlen=_SAID)
        self._result = ""
        self._how = ""
        self._change: str | None = None

    def write(self, text: str) -> None:
        """A piece of its arguments came."""
        self._written += len(text)
        self._width = 0

    def begin(self, arguments: Mapping[str, Any]) -> None:
        self._arguments, self.outcome, self._width = arguments, Outcome.RUNNING, 0

    def say(self, text: str) -> None:
        """The running tool said something."""
        first, *others = clean(text).split("\n")
        self._said[-1] = (self._said[-1] + first)[-_MOST // _SAID :]
        self._said.extend(others)
        self._width = 0

    def end(self, text: str, is_error: bool, data: Mapping[str, Any] | None) -> None:
        self.outcome = Outcome.FAILED if is_error or _went_wrong(data) else Outcome.DONE
        self._result, self._width = cut(text, _MOST), 0
        if not is_error:
            self._change = edits.done(self._arguments, self._result)
        self._how = _how(self._result, is_error, data, self._change)

    def drop(self) -> None:
        """It will never run, or nobody will know how it ended."""
        self.outcome, self._width = Outcome.NEVER, 0
        self._how = "stopped" if self._arguments else "not run"

    def _layout(self, width: int) -> list[Line]:
        head = self._headline(width)
        if self.is_open:
            return [head, *self._inside(width)]
        if self.outcome is Outcome.RUNNING:
            newest = [row for row in self._said if row.strip()][-3:]
            return [head, *(line(f"  {clipped(row, width - 2)}", Ink.DIM) for row in newest)]
        return [head, *(paint(self._change, width, most=_PREVIEW, brief=True) if self._change else [])]

    def _headline(self, width: int) -> Line:
        mark, ink = self.outcome.value
        how = self._how
        if self.outcome is Outcome.COMING and self._written:
            how = f"writing, {self._written:,} characters"
        name = clipped(clean_line(self.name), max(width - 4, 1))
        left, what = width - cell_len(name) - 4, gist(self._arguments)
        how = clipped(how, max(left * 2 // 3, left - cell_len(what) - 2))
        what = clipped(what, left - cell_len(how) - (2 if how else 0))
        said = Ink.BAD if self.outcome is Outcome.FAILED else Ink.DIM
        rest = [Span(f"  {text}", look) for text, look in ((what, Ink.PLAIN), (how, said)) if text]
        return (Span(f"{mark} ", ink), Span(name, Ink.NAME), *rest)

    def _inside(self, width: int) -> list[Line]:
        lines = argument_lines(self._arguments, width)
        if self._result:
            return [*lines, line("  result", Ink.STRONG), *paint(self._result, width, Ink.DIM)]
        return [*lines, *paint("\n".join(self._said), width, Ink.DIM)]


def gist(arguments: Mapping[str, Any]) -> str:
    """The argument that matters, on one line."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    names = [name for name in _TELLING if texts.get(name)] or [name for name, value in texts.items() if value]
    if names:
        return clean_line(texts[names[0]])
    return clean_line(json.dumps(arguments, ensure_ascii=False, default=str)) if arguments else ""


def argument_lines(arguments: Mapping[str, Any], width: int) -> list[Line]:
    """All arguments, whole."""
    return [row for name, value in arguments.items() for row in _argument(name, value, width)]


def _argument(name: str, value: Any, width: int) -> list[Line]:
    text = cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), _MOST)
    head = Span(f"  {clean_line(name)} ", Ink.STRONG)
    rows = wrapped(clean(text), width - 4)
    if len(rows) == 1 and len(head.text) + len(rows[0].text) <= width:
        return [(head, Span(rows[0].text))]
    return [(head,), *(line(f"    {row.text}") for row in rows)]


def _went_wrong(data: Mapping[str, Any] | None) -> bool:
    data = data or {}
    return data.get("exit_code") not in (0, None) or data.get("outcome") not in ("passed", None)


def _how(result: str, is_error: bool, data: Mapping[str, Any] | None, change: str | None) -> str:
    if is_error:
        return clean_line(result[:500])
    if change:
        return edits.size(change)
    data = data or {}
    if isinstance(data.get("outcome"), str):
        counts = [f"{data[name]} {name}" for name in ("failed", "errors", "passed") if data.get(name)]
        return clean_line(", ".join(counts) or str(data["outcome"]))
    if isinstance(data.get("exit_code"), int):
        return f"exit code {data['exit_code']}"
    rows = result.count("\n") + bool(result.strip())
    return f"{rows} line{'s' * (rows != 1)}" if rows > 1 else clean_line(result)
