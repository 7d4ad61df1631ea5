"""Unified diffs, as diff and git write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.patch.cursor import Cursor, read_hunk
from tools.patch.model import Action, FilePatch, Hunk

_NOWHERE = "/dev/null"
_GIT = "diff --git "
_BINARY = ("Binary files ", "GIT binary patch")
_COPY = ("copy from ", "copy to ")
_SIGNATURE = re.compile(r"^\d+\.\d+")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


@dataclass
class _Section:
    """One file of a diff while it is read."""

    old: str = ""
    new: str = ""
    hunks: list[Hunk] = field(default_factory=list)
    old_mode: str = ""
    new_mode: str = ""
    named: bool = False
    """Whether its `---` and `+++` lines were seen."""


def starts_file(cursor: Cursor) -> bool:
    """Whether the cursor is at the first line of a file's part."""
    line, second, third = (cursor.ahead(count) or "" for count in range(3))
    return line.startswith(_GIT) or (
        line.startswith("--- ") and second.startswith("+++ ") and (third.startswith("@@") or cursor.ahead(2) is None)
    )


def read_unified(cursor: Cursor) -> list[FilePatch]:
    """Every file of the diff; text before the first is skipped. ToolFault for what is no diff."""
    sections: list[_Section] = []
    while (line := cursor.line) is not None:
        section = sections[-1] if sections else None
        if starts_file(cursor):
            _start(cursor, sections)
        elif line.startswith("@@") and section:
            section.hunks.append(read_hunk(cursor, _ends))
        elif line.startswith("@@"):
            raise cursor.fault("this hunk has no '--- a/PATH' and '+++ b/PATH' lines before it")
        elif section and not section.named:
            _extended(cursor, section)
        else:
            cursor.take()
    return [_finished(section) for section in sections]


def _ends(cursor: Cursor) -> bool:
    signature = cursor.line == "-- " and _SIGNATURE.match(cursor.ahead(1) or "")
    return starts_file(cursor) or bool(signature) or (cursor.line or "").startswith("Index: ")


def _start(cursor: Cursor, sections: list[_Section]) -> None:
    line = cursor.take()
    if line.startswith(_GIT):
        sections.append(_Section(*_git_names(line.removeprefix(_GIT))))
        return
    if not sections or sections[-1].named:
        sections.append(_Section())
    old, new = _name(line), _name(cursor.take())
    if _is_prefixed(old, "a/") and _is_prefixed(new, "b/"):
        old, new = (name if name == _NOWHERE else name[2:] for name in (old, new))
    sections[-1].old, sections[-1].new, sections[-1].named = old, new, True


def _extended(cursor: Cursor, section: _Section) -> None:
    line = cursor.line or ""
    if line.startswith(_BINARY) or line.startswith(_COPY):
        raise cursor.fault("binary changes and copies can't be applied; use run_command")
    for mark, attribute in _EXTENDED.items():
        if line.startswith(mark):
            setattr(section, attribute, _unquoted(line.removeprefix(mark)))
    if line.startswith("new file mode "):
        section.old = _NOWHERE
    elif line.startswith("deleted file mode "):
        section.new = _NOWHERE
    cursor.take()


_EXTENDED = {
    "rename from ": "old",
    "rename to ": "new",
    "old mode ": "old_mode",
    "new mode ": "new_mode",
    "new file mode ": "new_mode",
}


def _finished(section: _Section) -> FilePatch:
    hunks = tuple(section.hunks)
    executable = section.new_mode.endswith("755") if section.new_mode else None
    if section.old == _NOWHERE:
        return FilePatch(Action.ADD, section.new, hunks=hunks, executable=executable)
    if section.new == _NOWHERE:
        return FilePatch(Action.DELETE, section.old, hunks=hunks)
    target = section.new if section.new != section.old else ""
    return FilePatch(Action.UPDATE, section.old, target, hunks, executable)


def _git_names(text: str) -> tuple[str, str]:
    """The two names of a `diff --git` line, which are the same but for their prefix where no other line gives them."""
    if text.startswith('"'):
        old, _, new = text.partition('" ')
        return _unquoted(old + '"')[2:], _unquoted(new)[2:]
    half = len(text) // 2
    return text[:half][2:], text[half + 1 :][2:]


def _is_prefixed(name: str, prefix: str) -> bool:
    return name == _NOWHERE or name.startswith(prefix)


def _name(line: str) -> str:
    """The name behind `--- ` or `+++ `, without the time that some diffs add."""
    text = line[4:]
    return _unquoted(text) if text.startswith('"') else text.partition("\t")[0].strip()


def _unquoted(text: str) -> str:
    """A name as git quotes it where it has unusual characters."""
    if not (len(text) > 1 and text.startswith('"') and text.endswith('"')):
        return text

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _LETTERS.get(code, code)

    return _ESCAPE.sub(plain, text[1:-1].encode()).decode("utf-8", "surrogateescape")
