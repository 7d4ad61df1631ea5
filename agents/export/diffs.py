"""Unified diffs in what tools say, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Change(StrEnum):
    FILE = "file"
    PLACE = "place"
    ADDED = "added"
    REMOVED = "removed"
    SAME = "same"


@dataclass(frozen=True)
class Line:
    change: Change
    text: str


def lines_of(text: str) -> list[Line]:
    """The lines of a text that has a unified diff in it; none when it has not."""
    lines = text.split("\n")
    begins = (a.startswith("--- ") and b.startswith("+++ ") for a, b in pairwise(lines))
    if not any(begins) or not any(line.startswith("@@") for line in lines):
        return []
    return [Line(_change(line), line) for line in lines]


def _change(line: str) -> Change:
    if line.startswith(("--- ", "+++ ", "diff ", "index ")):
        return Change.FILE
    if line.startswith("@@"):
        return Change.PLACE
    return {"+": Change.ADDED, "-": Change.REMOVED}.get(line[:1], Change.SAME)
