"""Walks a folder of the sandbox in a fixed order, without following links and without build products."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from tools.errors import ToolFault
from tools.sandbox import Sandbox

SKIPPED = frozenset(
    (
        ".git", ".hg", ".svn", ".sapwood", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".hypothesis", ".eggs", ".idea", ".vscode",
    )
)  # fmt: skip
MAX_ENTRIES = 50_000
_MAX_PARTS = 100


@dataclass(frozen=True)
class Entry:
    """A file or folder below the start."""

    path: str
    """Relative to the root, with `/`."""
    depth: int
    """1 for what lies directly in the start."""
    is_folder: bool


def walk(sandbox: Sandbox, start: str, *, max_depth: int = 0) -> Iterator[Entry]:
    """Every entry below `start`, folders before files, each sorted; `max_depth` 0 means all.

    Stops after MAX_ENTRIES. PathFault if `start` is not a folder inside the root.
    """
    base = sandbox.jail.relative(start)
    seen = 0
    with sandbox.jail.open_folder(start) as descriptor:
        for folder, folders, files, inside in os.fwalk(".", dir_fd=descriptor, follow_symlinks=False):
            parts = [part for part in folder.split("/") if part != "."]
            links = {name for name in folders if _is_link(name, inside)}
            kept = sorted(name for name in folders if name not in SKIPPED and name not in links)
            folders_here = set(kept)
            prefix = "/".join([*([] if base == "." else [base]), *parts])
            depth = len(parts) + 1
            folders[:] = kept if not max_depth or depth < max_depth else []
            for name in [*kept, *sorted([*files, *links])]:
                seen += 1
                if seen > MAX_ENTRIES:
                    return
                yield Entry(f"{prefix}/{name}" if prefix else name, depth, name in folders_here)


def not_all(count: int) -> str:
    """What to say below `count` entries if the walk was stopped there."""
    return f"\n[only the first {count} entries were looked at; give a subfolder as path]" * (count >= MAX_ENTRIES)


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return True  # gone again: nothing to go into


def _parts_of(pattern: str) -> list[str]:
    """A glob's parts; several `**` in a row are one."""
    parts = pattern.strip("/").split("/")
    if len(parts) > _MAX_PARTS:
        raise ToolFault(f"the glob has {len(parts)} parts, more than {_MAX_PARTS}")
    return [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]


def matches(pattern: str, path: str) -> bool:
    """Whether a relative path fits a glob: without `/` by its name alone, else part by part, `**` for any folders."""
    pattern = pattern.removeprefix("./")
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    globs, parts = _parts_of(pattern), path.split("/")

    @cache
    def fits(glob: int, part: int) -> bool:
        if glob == len(globs):
            return part == len(parts)
        if globs[glob] == "**":
            return fits(glob + 1, part) or (part < len(parts) and fits(glob, part + 1))
        return part < len(parts) and fnmatchcase(parts[part], globs[glob]) and fits(glob + 1, part + 1)

    return fits(0, 0)
