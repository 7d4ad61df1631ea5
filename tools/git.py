"""The tool that shows what has changed since the last commit."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec
from tools.sandbox import Sandbox
from tools.sandbox.scratch import remove
from tools.text import cut
from tools.workers import git_diff as worker

_SECONDS = 30.0
_OUTPUT_BYTES = 4 << 20
_SHOWN_FILES = 50


class GitTools:
    """git_diff."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.git_diff, read_only=True),)

    async def git_diff(
        self, path: Annotated[str, Field(description="File or folder relative to the root.")] = "."
    ) -> str:
        """Show what has changed since the last commit, new files included."""
        diff = await self._run(self._sandbox.jail.relative(path))
        if not diff:
            return "no changes since the last commit"
        limit = self._sandbox.limits.text_chars
        if len(diff) <= limit:
            return diff.rstrip("\n")
        names = [line.split(" b/", 1)[-1] for line in diff.splitlines() if line.startswith("diff --git ")]
        more = ["..."] if len(names) > _SHOWN_FILES else []
        listed = "\n".join([f"{len(names)} files have changed:", *names[:_SHOWN_FILES], *more])
        return f"{listed}\n{cut(diff, limit, 'see one file with git_diff, path FILE')}".rstrip("\n")

    async def _run(self, path: str) -> str:
        scratch = self._sandbox.home / f"git-{secrets.token_hex(8)}"
        with contextlib.ExitStack() as stack:
            scratch.mkdir()
            stack.callback(remove, scratch)
            done = await self._sandbox.run(
                [sys.executable, "-I", "-S", str(Path(worker.__file__)), str(scratch), path],
                timeout=_SECONDS,
                output_bytes=_OUTPUT_BYTES,
            )
        if done.timed_out:
            raise ToolFault(f"git took longer than {_SECONDS:g} s; give a path, or ignore large folders in .gitignore")
        if done.exit_code == worker.NO_GIT:
            raise ToolFault("git is not installed here; read the files instead")
        if done.exit_code == worker.NO_REPOSITORY:
            raise ToolFault("the root is not in a git repository, so there is nothing to compare with; read the files")
        if done.exit_code:
            raise ToolFault(f"git diff failed: {done.output.strip()[-300:]}")
        return done.output
