"""The volatile facts of a repository, for the first user message (never for the system prompt)."""

from __future__ import annotations

import os
from pathlib import Path

SKIPPED = frozenset({".git", ".sapwood", "__pycache__", ".venv", "venv", "node_modules"})
_MOST = 200


def files_of(repo: Path, most: int = _MOST) -> list[str]:
    """Sorted relative paths, hidden and generated folders left out, at most `most` of them and a line
    saying so.
    """
    found: list[str] = []
    for folder, folders, names in os.walk(repo):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        found += [(Path(folder) / name).relative_to(repo).as_posix() for name in sorted(names)]
        if len(found) > most:
            return [*sorted(found[:most]), "… (more: use list_files)"]
    return sorted(found)
