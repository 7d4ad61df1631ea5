"""Snapshots and worktrees of a folder that never touch the folder's own git repository.

A shadow git directory in a temporary place uses the user's folder as its work tree. So a clean tree, a dirty
one and a folder without git are the same case, worktrees hold the uncommitted changes too, and whatever
happens to this process leaves nothing behind in the user's `.git`. Ignored files (virtual environments,
build output) are not in worktrees.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from agents.git import ATTRIBUTES, EXCLUDE, NO_PROGRAMS, own_environment
from tools.sandbox.scratch import Scratch, remove


class ShadowError(Exception):
    """Git could not do what was asked; one line."""


class Shadow:
    """A context manager: everything it made, worktrees included, is gone after it (unless `keep`)."""

    def __init__(self, folder: Path, keep: bool = False) -> None:
        self.folder, self.keep = folder.resolve(), keep

    def __enter__(self) -> Self:
        if shutil.which("git") is None:
            raise ShadowError("git is not installed: branches and diffs need it")
        self._scratch = None if self.keep else Scratch("run")
        self._home = self._scratch.path if self._scratch else Path(tempfile.mkdtemp(prefix="sapwood-kept-"))
        self._git_dir = self._home / "shadow.git"
        self._git_dirs = {self.folder: self._git_dir}
        # By work tree, noted when it is made: what it says about itself later, commands may have rewritten.
        try:
            self._prepare()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scratch:
            self._scratch.close()

    def worktree(self, name: str, commit: str | None = None) -> Path:
        """A new worktree at a snapshot (default: the folder as it was at the beginning)."""
        path = self._home / name / (self.folder.name or "root")
        self._git("worktree", "add", "--quiet", "--detach", str(path), commit or self.base)
        self._git_dirs[path] = Path((path / ".git").read_text().removeprefix("gitdir:").strip())
        return path

    def remove(self, worktree: Path) -> None:
        if not self.keep:
            remove(worktree.parent)

    def snapshot(self, path: Path) -> str:
        """A commit of a worktree, or of the folder itself, as it is now."""
        return self._git("commit-tree", "-m", "snapshot", self._tree(path)).strip()

    def diff(self, path: Path, since: str | None = None) -> str:
        """What changed in a worktree (or in the folder itself) since a snapshot (default: the beginning), as a git
        patch.
        """
        tree = self._tree(path)
        return self._git("diff", "--binary", "--no-color", "--no-ext-diff", since or self.base, tree)

    def apply(self, patch: str, path: Path | None = None) -> str | None:
        """Apply to a worktree (default: the folder), all or nothing; the reason where it does not fit (it changed
        meanwhile).
        """
        try:
            self._git("apply", "--whitespace=nowarn", "-", at=path, stdin=patch)
        except ShadowError as error:
            return str(error)
        return None

    def _prepare(self) -> None:
        self._git("init", "--quiet", "--bare", str(self._git_dir), located=False)
        self._git("config", "core.bare", "false")
        (self._git_dir / "info").mkdir(exist_ok=True)
        (self._git_dir / "info" / "exclude").write_text(EXCLUDE)
        (self._git_dir / "info" / "attributes").write_text(ATTRIBUTES)
        self.base = self.snapshot(self.folder)

    def _tree(self, path: Path) -> str:
        """The id of a tree object that holds `path` as it is now."""
        inner = (f":(exclude,literal){name}" for name in self._repositories_in(path))
        self._git("add", "--all", "--ignore-errors", "--", ".", *inner, at=path)
        if path == self.folder and (tracked := self._tracked()):
            self._git("add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=tracked)
        return self._git("write-tree", at=path).strip()

    def _repositories_in(self, path: Path) -> list[str]:
        """Repositories inside the folder, submodules too: their files are not ours, and git stops at an empty one."""
        others = self._git("ls-files", "-z", "--others", "--exclude-standard", at=path)
        return [name.rstrip("/") for name in others.split("\0") if name.endswith("/")]

    def _tracked(self) -> str:
        """What the user's own repository tracks and is still there: in, even where an ignore rule matches
        it.
        """
        command = ["git", *NO_PROGRAMS, "-C", str(self.folder), "ls-files", "-z"]
        listed = subprocess.run(command, capture_output=True, env=own_environment(), check=False)
        names = listed.stdout.decode(errors="surrogateescape").split("\0") if listed.returncode == 0 else []
        return "\0".join(name for name in names if name and os.path.lexists(self.folder / name))

    def _git(self, *arguments: str, at: Path | None = None, stdin: str = "", located: bool = True) -> str:
        path = at or self.folder
        place = {"GIT_DIR": str(self._git_dirs[path]), "GIT_WORK_TREE": str(path)} if located else {}
        done = subprocess.run(
            ["git", *NO_PROGRAMS, *arguments],
            cwd=path,
            env={**own_environment(), **place},
            input=stdin.encode(errors="surrogateescape"),
            capture_output=True,
            check=False,
            start_new_session=True,  # Ctrl-C is ours to handle: a half-done snapshot would look like a fault of git
        )
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise ShadowError(f"git {arguments[0]} in {path}: {lines[-1]}")
        return done.stdout.decode(errors="surrogateescape")
