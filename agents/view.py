"""What a person sees of a run. The loop reports to the `View` protocol; printing is one implementation of
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from agents.state import Turn
from agents.stream import Delta
from agents.toolbox import ToolResult

if TYPE_CHECKING:
    from rich.console import Console

    from agents.report import Report


_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that change the direction of text."""


class View(Protocol):
    """`session` names the session or branch that something happens in."""

    def delta(self, session: str, delta: Delta) -> None:
        """A piece of the turn that is being streamed."""
        ...

    def turn(self, session: str, turn: Turn) -> None: ...

    def calling(self, session: str, name: str, arguments: Mapping[str, Any]) -> None:
        """A tool starts."""
        ...

    def progress(self, name: str, text: str) -> None:
        """What a tool says while it runs."""
        ...

    def tool(self, session: str, name: str, result: ToolResult) -> None: ...
    def verdict(self, session: str, verdict: str) -> None: ...
    def note(self, text: str) -> None: ...
    def finish(self, report: Report) -> None: ...


class Quiet:
    """Shows nothing; views that show a part of it all begin with this."""

    def delta(self, session: str, delta: Delta) -> None: ...
    def turn(self, session: str, turn: Turn) -> None: ...
    def calling(self, session: str, name: str, arguments: Mapping[str, Any]) -> None: ...
    def progress(self, name: str, text: str) -> None: ...
    def tool(self, session: str, name: str, result: ToolResult) -> None: ...
    def verdict(self, session: str, verdict: str) -> None: ...
    def note(self, text: str) -> None: ...
    def finish(self, report: Report) -> None: ...


class Text(Quiet):
    """One line per turn, then the turns as a table, the diff and the test run. No cursor tricks, so it
    pipes well.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def turn(self, session: str, turn: Turn) -> None:
        speed = turn.tokens_per_second
        rate = f"{speed:.1f} tok/s" if speed else "- tok/s"
        self._line(
            f"turn {turn.number} {branch_of(session)}: prompt {_n(turn.prompt)}, cached {_n(turn.cached)}, "
            f"computed {_n(turn.computed)}, TTFT {turn.ttft * 1000:.0f} ms, {rate}  "
            f"{', '.join(turn.calls) or '(answer)'}"
        )

    def tool(self, session: str, name: str, result: ToolResult) -> None:
        if result.is_error:
            self._line(f"  {branch_of(session)} {name}: {' '.join(result.text.split())[:100]}", "yellow")

    def verdict(self, session: str, verdict: str) -> None:
        self._line(f"  {branch_of(session)} tests: {verdict}", "green" if verdict == "passed" else "yellow")

    def note(self, text: str) -> None:
        self._line(text, "dim")

    def finish(self, report: Report) -> None:
        from rich.syntax import Syntax

        self._table(report)
        if shares := report.shares:
            own = ", ".join(f"{name} {private}" for name, (_, private) in shares.items())
            least = min(shared for shared, _ in shares.values())
            self._line(f"prompt tokens shared by each branch: {least} or more; computed for one alone: {own}", "dim")
        if report.diff:
            self._console.print(
                Syntax(shown(report.diff.rstrip()), "diff", theme="ansi_dark", background_color="default")
            )
        if report.tests:
            self._line(report.tests.rstrip())
        style = "bold green" if report.status.exit_code == 0 else "bold red"
        self._line(f"{report.status.value.replace('_', ' ')}: {report.reason}", style)

    def _line(self, text: str, style: str | None = None) -> None:
        self._console.print(shown(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def _table(self, report: Report) -> None:
        from rich.table import Table

        rows = [(name, turn) for name, turns in report.turns.items() for turn in turns]
        if not rows:
            return
        table = Table(title=f"turns of session {report.session}", title_justify="left")
        table.add_column("branch")
        for name in ("turn", "prompt", "cached", "computed", "TTFT ms", "tok/s"):
            table.add_column(name, justify="right")
        for name, turn in rows:
            speed = turn.tokens_per_second
            tokens = (_n(turn.prompt), _n(turn.cached), _n(turn.computed))
            table.add_row(name, str(turn.number), *tokens, f"{turn.ttft * 1000:.0f}", f"{speed:.1f}" if speed else "-")
        table.add_section()
        table.add_row("all", str(len(rows)), *(_n(total) for total in report.totals.values()), "", "")
        self._console.print(table)


class Json(Quiet):
    """Nothing until the end, then one JSON object."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def finish(self, report: Report) -> None:
        self._console.file.write(json.dumps(report.as_json()) + "\n")


class StreamJson(Quiet):
    """A JSON object a line, as things happen; the last one, of type `result`, is what `Json` prints."""

    def __init__(self, console: Console) -> None:
        self._file = console.file

    def delta(self, session: str, delta: Delta) -> None:
        self._line("delta", session, part=delta.part, text=delta.text)

    def turn(self, session: str, turn: Turn) -> None:
        self._line("turn", session, **turn.as_json())

    def calling(self, session: str, name: str, arguments: Mapping[str, Any]) -> None:
        self._line("call", session, tool=name, arguments=arguments)

    def progress(self, name: str, text: str) -> None:
        self._line("progress", tool=name, text=text)

    def tool(self, session: str, name: str, result: ToolResult) -> None:
        self._line("tool", session, tool=name, text=result.text, is_error=result.is_error, data=result.data)

    def verdict(self, session: str, verdict: str) -> None:
        self._line("verdict", session, verdict=verdict)

    def note(self, text: str) -> None:
        self._line("note", text=text)

    def finish(self, report: Report) -> None:
        self._line("result", **report.as_json())

    def _line(self, kind: str, session: str | None = None, **fields: Any) -> None:
        where = {} if session is None else {"session": session}
        self._file.write(json.dumps({"type": kind, **where, **fields}) + "\n")
        self._file.flush()


def branch_of(session: str) -> str:
    """The branch's label; `main` for a session that is nobody's branch."""
    return session.partition(".")[2] or "main"


def shown(text: str) -> str:
    """`text` for a terminal: what a model, a test or a file says can neither move the cursor nor reorder a line."""
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], text).encode(errors="backslashreplace").decode()


def _n(value: Any) -> str:
    return "-" if value is None else str(value)
