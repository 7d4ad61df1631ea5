"""What a task came to, and the folder that keeps it: `results.jsonl` grows by a line with each finished task,
so that a run that was broken off goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

VERSION = 1
COUNTS = ("turns", "prompt", "cached", "computed")


class BadResults(Exception):
    """The folder holds something that this run cannot go on with; one line."""


@dataclass(frozen=True)
class Settings:
    """What a result depends on. Results of other settings are not mixed."""

    model: str
    branches: int
    max_turns: int
    profile: str
    temperature: float | None
    seed: int | None


@dataclass(frozen=True)
class Result:
    task: str
    attempt: int
    solved: bool
    """By the tests in a fresh copy, and nothing else changed."""
    why: str
    """Why not, else what the agent said of its end."""
    status: str
    """How the agent itself ended."""
    turns: int
    prompt: int | None
    cached: int | None
    computed: int | None
    """Tokens over all turns and branches, as the server counts them; None where it does not say."""
    seconds: float
    session: str = ""
    by_turn: list[dict[str, Any]] = field(default_factory=list)


class Book:
    """The results of one folder."""

    def __init__(self, folder: Path, settings: Settings, results: list[Result]) -> None:
        self.folder, self.settings, self.results = folder, settings, results

    @classmethod
    def open(cls, folder: Path, settings: Settings) -> Self:
        """A new folder, or one that holds results of the same settings. Raises BadResults."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "results.jsonl"
        whole, _, torn = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        results = [_read(line, path, number, settings) for number, line in enumerate(whole.splitlines(), 1)]
        if torn:
            os.truncate(path, path.stat().st_size - len(torn))
        return cls(folder, settings, results)

    def has(self, task: str, attempt: int) -> bool:
        return any((result.task, result.attempt) == (task, attempt) for result in self.results)

    def add(self, result: Result) -> None:
        line = {"version": VERSION, "settings": asdict(self.settings), **asdict(result)}
        with (self.folder / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.results.append(result)

    def conclude(self, **more: Any) -> None:
        """Write `results.json`: everything, and the sums."""
        whole = {"version": VERSION, "settings": asdict(self.settings), **more, "summary": summary(self.results)}
        whole["results"] = [asdict(result) for result in self.results]
        (self.folder / "results.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def summary(results: Sequence[Result]) -> dict[str, Any]:
    counts = {name: _sum(getattr(result, name) for result in results) for name in COUNTS}
    seconds = round(sum(result.seconds for result in results), 1)
    return {"attempts": len(results), "solved": sum(result.solved for result in results), **counts, "seconds": seconds}


def _sum(values: Iterable[int | None]) -> int | None:
    """None when any part is unknown: a total is never an estimate."""
    every = list(values)
    return None if None in every else sum(value for value in every if value is not None)


def _read(line: bytes, path: Path, number: int, settings: Settings) -> Result:
    try:
        given = json.loads(line)
        version, then = given.pop("version"), given.pop("settings")
        result = Result(**given)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadResults(f"{path}, line {number} is no result: use another --out") from error
    now = asdict(settings)
    differing = [f"{name} {then.get(name)}" for name in now if then.get(name) != now[name]]
    if version != VERSION or differing:
        raise BadResults(f"{path} was made with {', '.join(differing) or f'version {version}'}: use another --out")
    return result
