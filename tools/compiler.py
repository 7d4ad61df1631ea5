"""The tool that asks compilers what is wrong with code, without running it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.sandbox import Sandbox
from tools.testing import interpreter
from tools.text import cut
from tools.walk import walk
from tools.workers import compile_python

_MAX_FILES = 200
_OUTPUT_BYTES = 1 << 18
_GCC_STYLE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|warning): (?P<text>.*)$"
)
_C_FLAGS = ("-fsyntax-only", "-Wall", "-Wextra", "-fdiagnostics-color=never")


class Language(Enum):
    """What a file name's ending says."""

    PYTHON = "Python"
    C = "C"
    CPP = "C++"


_ENDINGS = {
    ".py": Language.PYTHON,
    ".pyi": Language.PYTHON,
    ".c": Language.C,
    ".h": Language.C,
    ".cc": Language.CPP,
    ".cpp": Language.CPP,
    ".cxx": Language.CPP,
    ".hpp": Language.CPP,
}
_HEADERS = frozenset({".h", ".hpp"})
_COMPILERS = {Language.C: ("cc", "gcc", "clang"), Language.CPP: ("c++", "g++", "clang++")}


@dataclass(frozen=True)
class Diagnostic:
    """One complaint of a compiler. Line and column count from 1."""

    file: str
    line: int
    column: int
    severity: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"


class CompilerTools:
    """check_code."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.check_code, read_only=True),)

    async def check_code(
        self, path: Annotated[str, Field(description="File or folder relative to the root.")] = "."
    ) -> CallToolResult:
        """Check Python, C and C++ files for syntax and compile errors, without running them."""
        files = self._files(path)
        found: list[Diagnostic] = []
        for language in Language:
            group = [file for file in files if _ENDINGS[_ending(file)] is language]
            if group:
                found += await self._check(language, group)
        data = {"files": len(files), "diagnostics": [asdict(one) for one in found]}
        text = "\n".join(map(str, found)) or f"no problems in {len(files)} file{'s' * (len(files) != 1)}"
        return answer(cut(text, self._sandbox.limits.text_chars, "fix the first ones and check again"), data)

    def _files(self, path: str) -> list[str]:
        real = self._sandbox.resolve(path)
        if real.is_dir():
            found = (entry.path for entry in walk(self._sandbox, path) if not entry.is_folder)
            sources = [file for file in found if _ending(file) in _ENDINGS and _ending(file) not in _HEADERS]
            files = [file for file in sources if (self._sandbox.root / file).is_file()]  # a pipe would never end
            if not files:
                raise ToolFault(f"there are no Python, C or C++ files in {path!r}")
            if len(files) > _MAX_FILES:
                raise ToolFault(f"there are {len(files)} files in {path!r}, more than {_MAX_FILES}; check a subfolder")
            return files
        if not real.is_file():
            raise ToolFault(f"{path!r} does not exist")
        if _ending(path) not in _ENDINGS:
            raise ToolFault(f"{path!r} is not a Python, C or C++ file")
        return [self._sandbox.jail.relative(path)]

    async def _check(self, language: Language, files: list[str]) -> list[Diagnostic]:
        if language is Language.PYTHON:
            command = [interpreter(self._sandbox), "-I", "-S", str(Path(compile_python.__file__))]
        else:
            command = [_compiler(language), *_C_FLAGS]
        arguments = [f"./{file}" for file in files]  # a name that starts with a dash is not an option
        done = await self._sandbox.run([*command, *arguments], env={"LC_ALL": "C"}, output_bytes=_OUTPUT_BYTES)
        if done.timed_out:
            raise ToolFault(f"the {language.value} check took too long; check fewer files")
        found = _parse_python(done.output) if language is Language.PYTHON else parse_gcc(done.output)
        if done.exit_code and not found:
            raise ToolFault(f"the {language.value} check failed: {done.output.strip()[-400:]}")
        return found


def parse_gcc(output: str) -> list[Diagnostic]:
    """Diagnostics in the form that gcc and clang share, `file:line:column: severity: message`."""
    found = (_GCC_STYLE.match(line) for line in output.splitlines())
    return [
        Diagnostic(
            _clean(match["file"]),
            int(match["line"]),
            int(match["column"] or 1),
            "warning" if match["kind"] == "warning" else "error",
            match["text"],
        )
        for match in found
        if match
    ]


def _parse_python(output: str) -> list[Diagnostic]:
    rows = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return [Diagnostic(**{**row, "file": _clean(row["file"])}) for row in rows]


def _clean(file: str) -> str:
    return file.removeprefix("./")


def _ending(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _compiler(language: Language) -> str:
    for name in _COMPILERS[language]:
        if shutil.which(name):
            return name
    raise ToolFault(f"there is no {language.value} compiler here; install one that is called {_COMPILERS[language][0]}")
