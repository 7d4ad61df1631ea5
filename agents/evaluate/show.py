"""What a person sees of an evaluation: a line with each result, and a table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from agents.evaluate.results import COUNTS, Result, summary
from agents.view import shown


def line(result: Result) -> str:
    counts = ", ".join(f"{name} {_n(getattr(result, name))}" for name in COUNTS)
    verdict = "solved" if result.solved else "not solved"
    why = "" if result.solved else f"  ({' '.join(shown(result.why).split())[:120]})"
    return f"{result.task} {result.attempt}: {verdict}, {counts}, {result.seconds:.1f} s{why}"


def table(results: Sequence[Result]) -> Table:
    grid = Table(title="tasks", title_justify="left")
    grid.add_column("task")
    for name in ("solved", *COUNTS, "seconds"):
        grid.add_column(name, justify="right")
    for task in dict.fromkeys(result.task for result in results):
        grid.add_row(task, *_cells(summary([result for result in results if result.task == task])))
    grid.add_section()
    grid.add_row("all", *_cells(summary(results)))
    return grid


def _cells(sums: dict[str, Any]) -> list[str]:
    return [f"{sums['solved']}/{sums['attempts']}", *(_n(sums[name]) for name in COUNTS), f"{sums['seconds']:.1f}"]


def _n(value: int | None) -> str:
    return "-" if value is None else str(value)
