"""What the commands answer from the session's own state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agents.state import State, Turn
from agents.tui.footer import percent
from agents.tui.ink import Ink, Line, Span, clean_line, line


def tool_lines(state: State) -> list[Line]:
    if not state.tools:
        return [line("The tools are known as soon as something was said.", Ink.DIM)]
    functions = [tool["function"] for tool in state.tools]
    width = max(len(str(function["name"])) for function in functions)
    return [
        (Span(str(function["name"]).ljust(width + 2), Ink.NAME), Span(_first(function.get("description"))))
        for function in functions
    ]


def model_lines(names: Iterable[str], current: str) -> list[Line]:
    return [(Span("● " if name == current else "○ ", Ink.GOOD), Span(name)) for name in names]


def cost_lines(state: State) -> list[Line]:
    """Sums of what the server reported; a sum with an unknown part is unknown."""
    turns = state.turns
    if not turns:
        return [line("No turn yet, so nothing was used.", Ink.DIM)]
    prompt, cached, computed, completion = (
        _sum(turns, name) for name in ("prompt", "cached", "computed", "completion")
    )
    share = f"  {percent(cached, prompt)}% of the prompts" if cached is not None and prompt else ""
    rows = (
        ("turns", len(turns), "", Ink.PLAIN),
        ("prompt", prompt, "  tokens", Ink.PLAIN),
        ("cached", cached, share, Ink.ADDED),
        ("computed", computed, "", Ink.WARN),
        ("generated", completion, "", Ink.PLAIN),
    )
    lines: list[Line] = [
        (Span(name.ljust(11), Ink.STRONG), Span(f"{'-' if value is None else f'{value:,}':>12}{rest}", ink))
        for name, value, rest, ink in rows
    ]
    seconds = sum(turn.seconds for turn in turns)
    return [*lines, (Span("model time ", Ink.STRONG), Span(f"{seconds:>12,.1f}  s"))]


def model_of(state: State) -> str:
    """The model's name; empty before the session began."""
    return state.model if state.opened else ""


def _sum(turns: Sequence[Turn], name: str) -> int | None:
    values = [getattr(turn, name) for turn in turns]
    return None if None in values else sum(values)


def _first(description: object) -> str:
    return clean_line(str(description or "").partition("\n")[0])
