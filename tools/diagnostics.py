"""What checkers say about code, read from the forms that they write. No files, no sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(
    r"^(?P<file>[^:\n]+?)(?::(?P<line>\d+)(?::(?P<column>\d+))?|\((?P<line2>\d+)(?:,(?P<column2>\d+))?\)): "
    r"(?:(?P<kind>fatal error|error|warning|note|info|help)(?:\[[\w:-]+\])?(?: (?=[A-Z]+\d+:)|: ))?(?P<text>.*)$"
)
_REMARKS = frozenset({"note", "info", "help"})


@dataclass(frozen=True)
class Diagnostic:
    """One complaint. Line and column count from 1."""

    file: str
    line: int
    column: int
    severity: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"


def parse_lines(output: str) -> list[Diagnostic]:
    """`file:line:column: severity: message`, as most checkers write; column and severity may be absent. Also
    `file(line,column): …`. Remarks that belong to another line are left out.
    """
    found = (_LINE.match(line) for line in output.splitlines())
    return [
        Diagnostic(
            match["file"],
            int(match["line"] or match["line2"]),
            int(match["column"] or match["column2"] or 1),
            "warning" if match["kind"] == "warning" else "error",
            match["text"],
        )
        for match in found
        if match and match["kind"] not in _REMARKS
    ]


def parse_rows(output: str) -> list[Diagnostic]:
    """The lines of our own worker, each an object with a diagnostic's fields."""
    return [Diagnostic(**row) for row in _objects(output)]


def parse_ruff(output: str) -> list[Diagnostic]:
    """`--output-format json-lines`. Syntax errors have no code; the compiler tells those."""
    return [
        Diagnostic(
            row["filename"],
            row["location"]["row"],
            row["location"]["column"],
            "warning",
            f"{row['code']} {row['message']}",
        )
        for row in _objects(output)
        if re.fullmatch(r"[A-Z]+\d+", row.get("code") or "")
    ]


def _objects(output: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in output.splitlines() if line.startswith("{"))
