"""The spelling between `*** Begin Patch` and `*** End Patch`, which models are trained on."""

from __future__ import annotations

from dataclasses import replace

from tools.patch.cursor import Cursor, read_hunk
from tools.patch.model import Action, FilePatch, Hunk

BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"


def read_envelope(cursor: Cursor) -> list[FilePatch]:
    """The files between the two marks. ToolFault for anything that is not the grammar, a missing end included."""
    cursor.take()
    files: list[FilePatch] = []
    while (line := cursor.line) is not None and line.rstrip() != _END:
        if line.startswith(_ADD):
            files.append(_added(cursor))
        elif line.startswith(_DELETE):
            files.append(FilePatch(Action.DELETE, _name(cursor.take(), _DELETE)))
        elif line.startswith(_UPDATE):
            files.append(_updated(cursor))
        elif not line.strip():
            cursor.take()
        else:
            raise cursor.fault(f"expected {_UPDATE!r}, {_ADD!r}, {_DELETE!r} with a path, or {_END!r}")
    if cursor.line is None:
        raise cursor.fault(f"there is no {_END!r} at the end, so a part of it is missing")
    return files


def _added(cursor: Cursor) -> FilePatch:
    path = _name(cursor.take(), _ADD)
    lines: list[tuple[str, str]] = []
    while (line := cursor.line) is not None and not line.startswith("***"):
        if line and not line.startswith("+"):
            raise cursor.fault("each line of a new file starts with +")
        if line or (cursor.ahead(1) or "").startswith("+"):
            lines.append(("+", line[1:]))
        cursor.take()
    return FilePatch(Action.ADD, path, hunks=(Hunk(tuple(lines)),))


def _updated(cursor: Cursor) -> FilePatch:
    path = _name(cursor.take(), _UPDATE)
    target = _name(cursor.take(), _MOVE) if (cursor.line or "").startswith(_MOVE) else ""
    hunks: list[Hunk] = []
    while (line := cursor.line) is not None and not line.startswith("***"):
        hunk = read_hunk(cursor, lambda here: (here.line or "").startswith("***"))
        if (cursor.line or "").rstrip() == _END_OF_FILE:
            cursor.take()
            hunk = replace(hunk, at_end=True)
        hunks.append(hunk)
    return FilePatch(Action.UPDATE, path, target, tuple(hunks))


def _name(line: str, mark: str) -> str:
    return line.removeprefix(mark).strip()
