"""The repository that an agent works in, and the verdict on what it left there.

The verdict does not rest on the agent's word, nor on its folder: the files that it was allowed to change are put
into a fresh copy, and the tests run there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import anyio

from agents.evaluate.tasks import BadTasks, Task
from tools.sandbox import Sandbox
from tools.testing import run_pytest

_LEFT_BY_TOOLS = frozenset({".git", ".sapwood", "__pycache__", ".pytest_cache"})
"""Made by git, the agent and pytest, whatever the model does."""
_IDENTITY = ("-c", "user.name=sapwood", "-c", "user.email=sapwood@localhost", "-c", f"core.hooksPath={os.devnull}")


def lay_out(task: Task, parent: Path) -> Path:
    """A copy of the task's repository below `parent`, committed to a git repository of its own."""
    place = _copy(task, parent / task.name)
    _git(place, "init", "--quiet", "--initial-branch=main")
    _git(place, "add", "--all", "--force")
    _git(place, *_IDENTITY, "commit", "--quiet", "--message", task.title)
    return place


async def complaint(task: Task, place: Path, parent: Path) -> str:
    """Why what is in `place` is no solution; empty when it is one. `parent` takes the fresh copy."""
    strayed = await anyio.to_thread.run_sync(strays, task, place)
    if strayed:
        return f"changed what was not to be changed: {', '.join(strayed)}"
    fresh = _copy(task, parent / f"{task.name}-fresh")
    for name in task.may_change:
        _carry(place / name, fresh / name)
    with Sandbox(fresh) as sandbox:
        run = await run_pytest(sandbox)
    if run.passed == task.tests and not run.failed and not run.errors:
        return ""
    return f"of {task.tests} tests {run.passed} pass: {run.as_text().splitlines()[0]}"


def strays(task: Task, place: Path) -> list[str]:
    """Files outside `may_change` that are new, gone or different."""
    before, after = _contents(task.repo), _contents(place)
    differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(differing - set(task.may_change))


def _copy(task: Task, to: Path) -> Path:
    shutil.copytree(task.repo, to, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_BY_TOOLS))
    return to


def _carry(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    if source.exists() and stat.S_ISREG(source.lstat().st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _contents(folder: Path) -> dict[str, str]:
    """By path: a digest of a file's bytes, or what else is there. Links are not followed, pipes not opened."""
    found = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_BY_TOOLS]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in (*files, *links):
            path = Path(parent, name)
            found[os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace")] = _content(path)
    return found


def _content(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return "not a file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(place: Path, *arguments: str) -> None:
    ours = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    others = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=place, env=others | ours, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise BadTasks("git is not installed: each task is laid out as a git repository") from None
    if done.returncode:
        raise BadTasks(f"git {arguments[0]} failed in {place}: {' '.join(done.stderr.split())}")
