"""Tells the two spellings of a patch apart."""

from __future__ import annotations

from tools.errors import ToolFault
from tools.patch.cursor import Cursor
from tools.patch.envelope import BEGIN, read_envelope
from tools.patch.model import FilePatch
from tools.patch.unified import read_unified, starts_file

_NEITHER = (
    "nothing was changed: this is neither a unified diff ('--- a/PATH', '+++ b/PATH', '@@ ... @@') nor a patch between "
    "'*** Begin Patch' and '*** End Patch'"
)


def parse(text: str) -> list[FilePatch]:
    """The files that a patch changes, with or without a code fence around it. ToolFault says what is wrong."""
    lines = _without_fence(text.replace("\r\n", "\n").split("\n"))
    cursor = Cursor(lines)
    while cursor.line is not None:
        if cursor.line.rstrip() == BEGIN:
            return read_envelope(cursor)
        if starts_file(cursor) or cursor.line.startswith("@@"):
            return read_unified(cursor)
        cursor.take()
    raise ToolFault(_NEITHER)


def _without_fence(lines: list[str]) -> list[str]:
    """Without a fence around the whole. One inside a hunk has a mark before it."""
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    return lines[fences[0] + 1 : fences[1] if len(fences) > 1 else None] if fences else lines
