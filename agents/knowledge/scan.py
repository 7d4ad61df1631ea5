"""The tags of a repository's source files, from worker processes under a limit of time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from agents.knowledge.languages import language_of
from agents.knowledge.listing import File
from agents.knowledge.tags import FileTags, is_test
from agents.knowledge.worker import FILE_BYTES, decode

_PACKAGES = str(Path(__file__).resolve().parents[2])
_BOOT = f"import sys; sys.path.append({_PACKAGES!r}); from agents.knowledge.worker import main; main()"
_WORKERS, _WORTH_A_WORKER = 4, 512 << 10
"""At most, and bytes of source for each."""
_MOST_DEATHS = 3
"""Files that may break a worker until the rest of its share is left out."""
_FOREIGN = frozenset({"vendor", "third_party", "third-party", "extern", "dist"})


@dataclass(frozen=True)
class Scan:
    tags: tuple[FileTags, ...]
    """By path."""
    left_out: int
    """Source files that were not parsed."""


def scan(repo: Path, files: Sequence[File], source_bytes: int, seconds: float) -> Scan:
    """Parse what is written by people, up to `source_bytes`: tests last, and shallow files before deep ones."""
    chosen, left_out = _choose(files, source_bytes)
    total = sum(file.size for file in chosen)
    count = min(os.cpu_count() or 1, _WORKERS, total // _WORTH_A_WORKER + 1)
    deadline = time.monotonic() + seconds
    shares = [[file.path for file in chosen[start::count]] for start in range(count) if chosen[start::count]]
    with ThreadPoolExecutor(_WORKERS) as pool:
        parts = list(pool.map(lambda share: _share(repo, share, deadline), shares))
    tags = sorted((tags for part in parts for tags in part), key=lambda tags: tags.path)
    return Scan(tuple(tags), left_out + len(chosen) - len(tags))


def _choose(files: Sequence[File], most: int) -> tuple[list[File], int]:
    sources = [file for file in files if _is_source(file)]
    chosen: list[File] = []
    for file in sorted(sources, key=lambda file: is_test(file.path)):
        if file.size > most:
            break
        most -= file.size
        chosen.append(file)
    return chosen, len(sources) - len(chosen)


def _is_source(file: File) -> bool:
    *folders, name = file.path.split("/")
    written = ".min." not in name and _FOREIGN.isdisjoint(folders)
    return written and 0 < file.size <= FILE_BYTES and language_of(name) is not None


def _share(repo: Path, paths: list[str], deadline: float) -> list[FileTags]:
    """The files that were parsed, in their order; the last ones are missing where there was no time for them."""
    found: list[FileTags] = []
    for _ in range(_MOST_DEATHS):
        done = _work(repo, paths[len(found) :], deadline)
        found += done
        if len(found) == len(paths) or time.monotonic() >= deadline:
            break
        found.append(FileTags(paths[len(found)]))  # this one broke the worker
    return found


def _work(repo: Path, paths: list[str], deadline: float) -> list[FileTags]:
    job = json.dumps({"root": str(repo), "paths": paths}).encode()
    try:
        output = subprocess.run(
            [sys.executable, "-I", "-c", _BOOT],
            input=job,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(0.0, deadline - time.monotonic()),
            check=False,
            start_new_session=True,
        ).stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    return [decode(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
