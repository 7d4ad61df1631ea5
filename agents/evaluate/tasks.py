"""Tasks to measure an agent with. Each is a folder:

NAME/task.toml   title, prompt, may_change, tests; needs, where it takes a program such as a compiler
NAME/repo/       the repository as the agent finds it; its tests fail
NAME/solution/   the files of `may_change` as they should become; no agent sees them
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

OURS = Path(__file__).resolve().parents[2] / "examples" / "tasks"
"""The task set of this repository; an installed package does not have it."""


class BadTasks(Exception):
    """The folder of tasks cannot be used; one line that names what is wrong with it."""


@dataclass(frozen=True)
class Task:
    name: str
    title: str
    prompt: str
    repo: Path
    may_change: tuple[str, ...]
    """The files that a solution may touch, relative to the repository."""
    tests: int
    """How many tests pass in a solved repository: fewer were left out, not solved."""
    needs: tuple[str, ...] = ()
    """Programs without which the tests cannot run."""

    @property
    def text(self) -> str:
        """What the agent is told."""
        return f"{self.prompt.strip()}\nMake the tests pass. Change nothing but {', '.join(self.may_change)}."

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(program for program in self.needs if shutil.which(program) is None)


def load(folder: Path, only: Sequence[str] = ()) -> list[Task]:
    """The tasks of a folder by name; `only` picks some of them. Raises BadTasks."""
    names = sorted(path.parent.name for path in folder.glob("*/task.toml"))
    if not names:
        raise BadTasks(f"{folder} holds no tasks: each is a folder with a task.toml and a repo folder")
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise BadTasks(f"there is no task {', '.join(unknown)} in {folder}; there are: {', '.join(names)}")
    return [_load(folder / name) for name in names if not only or name in only]


def _load(folder: Path) -> Task:
    path = folder / "task.toml"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadTasks(f"{path} cannot be read: {error}") from error
    unknown = sorted(set(given) - {"title", "prompt", "may_change", "tests", "needs"})
    if unknown:
        raise BadTasks(f"{path} has {', '.join(unknown)}, which is no field of a task")
    if not (folder / "repo").is_dir():
        raise BadTasks(f"{folder} has no repo folder")
    needs = _strings(path, "needs", given.get("needs", []))
    may_change = _strings(path, "may_change", given.get("may_change"))
    if not may_change or any(_leaves(name) for name in may_change):
        raise BadTasks(f"{path}: may_change must list files inside the repository")
    title, prompt = (_value(path, given, key, str) for key in ("title", "prompt"))
    tests = _value(path, given, "tests", int)
    return Task(folder.name, title, prompt, folder / "repo", may_change, tests, needs)


def _value(path: Path, given: dict[str, Any], key: str, kind: type) -> Any:
    value = given.get(key)
    if type(value) is not kind or not value:
        raise BadTasks(f"{path}: {key} must be a {'text' if kind is str else 'number above 0'}")
    return value


def _strings(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadTasks(f"{path}: {key} must be a list of texts")
    return tuple(value)


def _leaves(name: str) -> bool:
    pure = PurePosixPath(name)
    return pure.is_absolute() or ".." in pure.parts or not pure.parts
