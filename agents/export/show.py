"""Sessions in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.export.library import Recorded, final
from agents.export.story import status_word
from agents.export.summary import Summary
from agents.export.totals import Totals, own, totals
from agents.export.units import UNKNOWN, count, moment, percent, seconds
from agents.view import shown

_COUNTS = ("prompt", "cached", "computed")


@dataclass(frozen=True)
class Row:
    """A session in the list."""

    name: str
    status: str
    totals: Totals
    task: str


def row(recorded: Recorded) -> Row:
    state = final(recorded)
    task = "" if recorded.parent else " ".join(str(state.opened.get("task") or "").split())
    return Row(recorded.id, status_word(state.status), totals(own(state.turns)), task)


def listing(rows: Iterable[Row]) -> Table:
    """Names say when a session began; the task gets the room that is left."""
    table = _table("session", "status", numbers=("turns", "prompt", "cached"))
    table.add_column("task", overflow="ellipsis", no_wrap=True, ratio=1)
    table.expand = True
    for each in rows:
        sums = each.totals
        numbers = (str(sums.turns), count(sums.prompt), percent(sums.cached_share))
        table.add_row(each.name, each.status, *numbers, Text(shown(each.task)))
    return table


def write(told: Summary, console: Console) -> None:
    state = told.state
    for name, value in (
        ("session", told.recorded.id),
        ("task", told.title),
        ("model", state.model),
        ("began", moment(told.began)),
        ("took", seconds(told.ended - told.began)),
        ("status", f"{told.status}: {state.reason}" if state.reason else told.status),
        ("cached", f"{percent(told.totals.cached_share)} of {count(told.totals.prompt)} prompt tokens"),
    ):
        console.print(Text(f"{name:8} ", "dim") + Text(shown(str(value))), soft_wrap=True)
    if told.totals.turns:
        console.print(_turns(told))
    if told.branches:
        console.print(_branches(told))
    for line in told.unread:
        console.print(Text(f"a branch is missing here: {shown(line)}", "yellow"), soft_wrap=True)


def _turns(told: Summary) -> Table:
    table = _table("branch", numbers=("turn", *_COUNTS, "TTFT", "tok/s"))
    table.add_column("does", overflow="fold")
    for each in (told, *told.branches):
        for turn in each.turns:
            speed = turn.tokens_per_second
            counts = (count(getattr(turn, name)) for name in _COUNTS)
            rate = f"{speed:.1f}" if speed else UNKNOWN
            does = Text(shown(", ".join(turn.calls) or "answers"))
            table.add_row(each.label, str(turn.number), *counts, seconds(turn.ttft), rate, does)
    table.add_section()
    table.add_row("all", *_numbers(told.totals))
    return table


def _branches(told: Summary) -> Table:
    table = _table("branch", "status", numbers=("turns", "prompt", "cached", "shared", "private"))
    for branch in told.branches:
        sums, shares = branch.totals, branch.shares
        tokens = map(count, (sums.prompt, sums.cached, shares.shared, shares.private))
        table.add_row(branch.label, branch.status, str(sums.turns), *tokens)
    return table


def _table(*words: str, numbers: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for word in words:
        table.add_column(word, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _numbers(sums: Totals) -> list[Any]:
    return [str(sums.turns), *(count(getattr(sums, name)) for name in _COUNTS)]
