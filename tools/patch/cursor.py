"""The lines of a patch, read one after the other, and the hunks that both spellings share."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.errors import ToolFault
from tools.patch.model import Hunk

_NUMBERS = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_MARKS = " -+"


class Cursor:
    """Counts lines from 1 in what it complains about."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.at = 0

    @property
    def line(self) -> str | None:
        """The current line; None behind the last."""
        return self.ahead(0)

    def ahead(self, count: int) -> str | None:
        place = self.at + count
        return self._lines[place] if place < len(self._lines) else None

    def take(self) -> str:
        self.at += 1
        return self._lines[self.at - 1]

    def fault(self, why: str) -> ToolFault:
        return ToolFault(f"nothing was changed: line {min(self.at + 1, len(self._lines))} of the patch: {why}")


def read_hunk(cursor: Cursor, ends: Callable[[Cursor], bool]) -> Hunk:
    """The hunk at the cursor, from its `@@` lines, if it has any, to where another begins or `ends` says so.

    The counts of a header are ignored: models often miscount.
    """
    anchors: list[str] = []
    first = 0
    while (line := cursor.line) is not None and line.startswith("@@"):
        if numbers := _NUMBERS.match(line):
            first = int(numbers[1])
        elif anchor := line.removeprefix("@@").removesuffix("@@").strip(" ."):
            anchors.append(anchor)
        cursor.take()
    lines: list[tuple[str, str]] = []
    bare_end = False
    while not _hunk_is_over(cursor, ends):
        line = cursor.take()
        if line.startswith("\\"):
            bare_end = bool(lines) and lines[-1][0] != "-"
        elif not line:
            lines.append((" ", ""))
        elif line[0] in _MARKS:
            lines.append((line[0], line[1:]))
        else:
            cursor.at -= 1
            raise cursor.fault(f"a line of a hunk starts with a space, + or -, not with {line[0]!r}")
    return Hunk(tuple(lines), tuple(anchors), first, bare_end=bare_end)


def _hunk_is_over(cursor: Cursor, ends: Callable[[Cursor], bool]) -> bool:
    """Blank lines behind the last line of a hunk are no part of it."""
    start = cursor.at
    while cursor.line == "":
        cursor.at += 1
    line = cursor.line
    over = line is None or line.startswith("@@") or ends(cursor)
    if not over:
        cursor.at = start
    return over
