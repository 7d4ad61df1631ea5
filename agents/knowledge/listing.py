"""Which files a repository has: what git tracks or would, else what lies in the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.facts import SKIPPED
from agents.git import GitError, names_of, read_users

MOST_FILES = 50_000
_SECONDS = 10.0


@dataclass(frozen=True)
class File:
    path: str
    """Relative to the repository, with `/`."""
    size: int


@dataclass(frozen=True)
class Listing:
    files: tuple[File, ...]
    """Regular files, by how deep they lie and their path; links are none."""
    is_whole: bool


def list_files(repo: Path) -> Listing:
    found: list[File] = []
    for count, path in enumerate(_paths(repo)):
        if count >= MOST_FILES:
            return Listing(_ordered(found), False)
        try:
            status = os.lstat(repo / path)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(status.st_mode):
            found.append(File(path, status.st_size))
    return Listing(_ordered(found), True)


def _ordered(files: list[File]) -> tuple[File, ...]:
    return tuple(sorted(files, key=lambda file: (file.path.count("/"), file.path)))


def _paths(repo: Path) -> Iterator[str]:
    try:
        listed = read_users(
            ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."], repo, seconds=_SECONDS
        )
    except GitError:
        yield from _walk(repo)
    else:
        yield from sorted({path for path in names_of(listed) if not _is_skipped(path)})


def _is_skipped(path: str) -> bool:
    return not SKIPPED.isdisjoint(path.split("/"))


def _walk(repo: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(repo):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        inside = os.path.relpath(folder, repo)
        yield from (name if inside == "." else f"{inside}/{name}" for name in sorted(names))
