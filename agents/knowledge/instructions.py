"""What a repository's authors wrote for agents: `AGENTS.md`, the root's and those of folders in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import PathFault
from tools.sandbox.jail import Jail

NAME, SUBSTITUTE = "AGENTS.md", "CLAUDE.md"
"""The second counts in a folder that does not have the first."""
_MOST_BYTES = 1 << 20
_LEAST_BYTES = 200
"""Less of a file than this says nothing."""


@dataclass(frozen=True)
class Instructions:
    path: str
    text: str
    left_out: int
    """Bytes of the file that had no room."""


def read_instructions(repo: Path, paths: Iterable[str], room: int) -> tuple[list[Instructions], list[str]]:
    """Files in the order of `paths` (shallow ones first) while there is room, and the names of the others."""
    jail = Jail(repo)
    found: list[Instructions] = []
    left: list[str] = []
    for path in _named(paths):
        text = _text(jail, path)
        if not text:
            continue
        size = len(text.encode())
        if size > room and (found or room < _LEAST_BYTES):
            left.append(path)
            continue
        kept = text if size <= room else _head(text, room)
        room -= len(kept.encode())
        found.append(Instructions(path, kept, size - len(kept.encode())))
    return found, left


def _named(paths: Iterable[str]) -> Sequence[str]:
    """Those that are for agents, one a folder."""
    by_folder: dict[str, str] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name == NAME or (name == SUBSTITUTE and folder not in by_folder):
            by_folder[folder] = path
    return list(by_folder.values())


def _text(jail: Jail, path: str) -> str:
    """Empty for what is no text, or cannot be read."""
    try:
        raw = jail.read(path, _MOST_BYTES)
    except PathFault:
        return ""
    if b"\0" in raw:
        return ""
    lines = raw.decode("utf-8-sig", errors="replace").splitlines()
    return "\n".join(_clean(line).rstrip() for line in lines).strip()


def _clean(line: str) -> str:
    return "".join(c for c in line if c == "\t" or c.isprintable())


def _head(text: str, room: int) -> str:
    """Whole lines of the beginning."""
    head = text.encode()[:room].decode(errors="ignore")
    return (head[: head.rfind("\n")] if "\n" in head else head).rstrip()
