"""The tool that asks compilers and checkers what is wrong with code, without running it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import PurePosixPath
from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from tools.checkers import Checker, checkers
from tools.diagnostics import Diagnostic
from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.sandbox import Sandbox
from tools.text import cut
from tools.walk import walk

_MAX_FILES = 200
_OUTPUT_BYTES = 1 << 18
_SHOWN_TAIL = 400
_HEADERS = frozenset({".h", ".hpp"})


class CompilerTools:
    """check_code."""

    def __init__(self, sandbox: Sandbox, checks: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._checks = checks

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.check_code, read_only=True),)

    async def check_code(
        self, path: Annotated[str, Field(description="File or folder relative to the root.")] = "."
    ) -> CallToolResult:
        """Check code for syntax and compile errors, without running it."""
        all_checkers = checkers(self._sandbox, self._checks)
        files = self._files(path, all_checkers)
        found: list[Diagnostic] = []
        notes: list[str] = []
        for checker in all_checkers:
            if group := [file for file in files if checker.fits(file)]:
                try:
                    found += _unless_told(await self._check(checker, group), found, checker)
                except ToolFault as fault:
                    if checker.required:
                        raise
                    notes.append(f"note: {fault}")
        data = {"files": len(files), "diagnostics": [asdict(one) for one in found]}
        nothing = f"no problems in {len(files)} file{'s' * (len(files) != 1)}"
        text = "\n".join([*(map(str, found) if found else [nothing]), *notes])
        return answer(cut(text, self._sandbox.limits.text_chars, "check one file with check_code, path FILE"), data)

    def _files(self, path: str, all_checkers: Sequence[Checker]) -> list[str]:
        real = self._sandbox.resolve(path)
        if real.is_dir():
            found = (entry.path for entry in walk(self._sandbox, path) if not entry.is_folder)
            fitting = [file for file in found if any(checker.fits(file) for checker in all_checkers)]
            sources = [file for file in fitting if PurePosixPath(file).suffix.lower() not in _HEADERS]
            files = [file for file in sources if (self._sandbox.root / file).is_file()]  # a pipe would never end
            if not files:
                raise ToolFault(f"there are no {self._kinds()} files in {path!r}")
            if len(files) > _MAX_FILES:
                raise ToolFault(f"there are {len(files)} files in {path!r}, more than {_MAX_FILES}; check a subfolder")
            return files
        if not real.is_file():
            raise ToolFault(f"{path!r} does not exist")
        file = self._sandbox.jail.relative(path)
        if not any(checker.fits(file) for checker in all_checkers):
            raise ToolFault(f"{path!r} is not a {self._kinds()} file")
        return [file]

    def _kinds(self) -> str:
        *kinds, last = ("Python", "C", "C++", *self._checks)
        return f"{', '.join(kinds)} or {last}"

    async def _check(self, checker: Checker, files: list[str]) -> list[Diagnostic]:
        command = checker.command([f"./{file}" for file in files])  # a name that starts with a dash is not an option
        done = await self._sandbox.run(command, env={"LC_ALL": "C"}, output_bytes=_OUTPUT_BYTES)
        if done.timed_out:
            raise ToolFault(f"the {checker.name} check took too long; check fewer files")
        found = self._known(checker.parse(done.output))
        if done.exit_code and not found:
            raise ToolFault(f"the {checker.name} check failed: {done.output.strip()[-_SHOWN_TAIL:]}")
        return found

    def _known(self, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        """With names relative to the root; what names no file that is there was something else."""
        named = (replace(one, file=self._relative(one.file)) for one in found)
        return [one for one in named if (self._sandbox.root / one.file).exists()]

    def _relative(self, file: str) -> str:
        inside = os.path.relpath(self._sandbox.root / file, self._sandbox.root)
        return file if inside.startswith("../") else inside


def _unless_told(new: list[Diagnostic], found: Sequence[Diagnostic], checker: Checker) -> list[Diagnostic]:
    """Without what an optional checker says about lines that another has complained of."""
    told = set() if checker.required else {(one.file, one.line) for one in found}
    return [one for one in new if (one.file, one.line) not in told]
