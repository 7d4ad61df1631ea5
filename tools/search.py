"""Tools that find files by name and lines by content."""

from __future__ import annotations

import json
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec
from tools.sandbox import Sandbox
from tools.text import cut
from tools.walk import SKIPPED, matches, not_all, walk
from tools.workers import search as worker

_SEARCH_SECONDS = 10.0
_MAX_MATCHES = 100
_MAX_LINE = 300
_MANY_FILES = 50
_READ_OTHERWISE = re.compile(r"\\[^\\nrtwWdDsSbB.*+?()\[\]{}|^$/\"'-]|\[[^\]]*(\[|&&|~~|--)|[^\x00-\x7f]")
"""What Python and ripgrep understand in different ways, as far as ripgrep does not refuse it."""

Folder = Annotated[str, Field(description="Folder or file relative to the root.")]


class SearchTools:
    """search_text, find_files."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.search_text, read_only=True), ToolSpec(self.find_files, read_only=True))

    async def search_text(
        self,
        pattern: Annotated[str, Field(description="Python regular expression, matched within a line.")],
        path: Folder = ".",
        glob: Annotated[str, Field(description="Only files that fit, such as *.py or src/**/*.c.")] = "",
        ignore_case: Annotated[bool, Field(description="Match capital and small letters alike.")] = False,
    ) -> str:
        """Search the text of files for a regular expression. Shows each match with its file and line."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a set that will be read otherwise one day
                re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ToolFault(f"the pattern is not a valid regular expression: {error}") from None
        files, unseen = self._files(path, glob)
        found, truncated = await self._search(pattern, files, path, ignore_case)
        text = "\n".join(f"{file}:{line}: {match}" for file, line, match in found) or "no matches"
        more = f"\n[only the first {_MAX_MATCHES} matches; narrow the pattern, path or glob]" if truncated else ""
        how = "narrow the pattern, path or glob, or read the files with read_file"
        return cut(text, self._sandbox.limits.text_chars, how) + more + unseen

    def find_files(
        self,
        pattern: Annotated[str, Field(description="Glob such as test_*.py or src/**/*.c.")],
        path: Annotated[str, Field(description="Folder relative to the root.")] = ".",
    ) -> str:
        """Find files by name. A pattern without a slash fits names in any folder."""
        files, unseen = self._files(path, pattern or "*")
        text = "\n".join(files) or "no files match"
        return cut(text, self._sandbox.limits.text_chars, "narrow the pattern or path") + unseen

    def _files(self, path: str, glob: str) -> tuple[list[str], str]:
        """The files that fit, and what to say if there are more than are looked at."""
        if self._sandbox.resolve(path).is_file():
            return [self._sandbox.jail.relative(path)], ""
        entries = list(walk(self._sandbox, path))
        fitting = (e.path for e in entries if not e.is_folder and (not glob or matches(glob, e.path)))
        return sorted(fitting), not_all(len(entries))

    async def _search(
        self, pattern: str, files: list[str], path: str, ignore_case: bool
    ) -> tuple[list[tuple[str, int, str]], bool]:
        job = {
            "ripgrep": _ripgrep(pattern, files),
            "folder": self._sandbox.jail.relative(path),
            "skipped": sorted(SKIPPED),
            "pattern": pattern,
            "ignore_case": ignore_case,
            "files": files,
            "max_matches": _MAX_MATCHES,
            "max_line": _MAX_LINE,
            "max_bytes": self._sandbox.limits.read_bytes,
        }
        done = await self._sandbox.run(
            [sys.executable, "-I", "-S", str(Path(worker.__file__))],
            timeout=_SEARCH_SECONDS,
            stdin=json.dumps(job).encode(),
            output_bytes=1 << 22,
        )
        if done.timed_out:
            raise ToolFault(
                f"the search took longer than {_SEARCH_SECONDS:g} s; simplify the pattern or narrow the path"
            )
        if done.exit_code:
            raise ToolFault(f"the search failed: {done.output.strip()[-200:]}")
        result = json.loads(done.output)
        return [tuple(match) for match in result["matches"]], result["truncated"]


def _ripgrep(pattern: str, files: list[str]) -> str | None:
    """The program that leaves out files without a match, where it is worth its start and reads the pattern alike."""
    if len(files) < _MANY_FILES or _READ_OTHERWISE.search(pattern):
        return None
    return shutil.which("rg")
