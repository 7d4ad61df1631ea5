"""Which programs can check which files: Python's compiler, ruff, C and C++ compilers, and commands of one's own."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.diagnostics import Diagnostic, parse_lines, parse_rows, parse_ruff
from tools.errors import ToolFault
from tools.sandbox import Sandbox
from tools.testing import interpreter
from tools.walk import matches
from tools.workers import compile_python

_PYTHON, _C, _CPP = (".py", ".pyi"), (".c", ".h"), (".cc", ".cpp", ".cxx", ".hpp")
_COMPILERS = {"C": ("cc", "gcc", "clang"), "C++": ("c++", "g++", "clang++")}
_C_FLAGS = ("-fsyntax-only", "-Wall", "-Wextra", "-fdiagnostics-color=never")
_RUFF = ("check", "--select=E9,F", "--output-format=json-lines", "--no-cache", "--force-exclude", "--quiet", "--")


@dataclass(frozen=True)
class Checker:
    """One program, the files that it is for, and how to read what it says."""

    name: str
    fits: Callable[[str], bool]
    command: Callable[[list[str]], list[str] | str]
    """The command line for some files. ToolFault where the program is not there."""
    parse: Callable[[str], list[Diagnostic]]
    required: bool = True
    """Whether the whole check fails if this one can't run."""


def checkers(sandbox: Sandbox, checks: Mapping[str, str]) -> list[Checker]:
    """In the order in which they run. `checks` are command lines by glob, with `{files}` for the files' names."""
    python = [interpreter(sandbox), "-I", "-S", str(Path(compile_python.__file__))]
    found = [Checker("Python", _ends_in(_PYTHON), lambda files: python + files, parse_rows)]
    if ruff := _ruff():
        found.append(Checker("ruff", _ends_in(_PYTHON), lambda files: [ruff, *_RUFF, *files], parse_ruff, False))
    found += (_compiler(language, endings) for language, endings in (("C", _C), ("C++", _CPP)))
    return found + [_of_one_s_own(glob, command) for glob, command in checks.items()]


def _ends_in(endings: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda file: PurePosixPath(file).suffix.lower() in endings


def _compiler(language: str, endings: tuple[str, ...]) -> Checker:
    def command(files: list[str]) -> list[str]:
        names = _COMPILERS[language]
        program = next((name for name in names if shutil.which(name)), None)
        if program is None:
            raise ToolFault(f"there is no {language} compiler here; install one that is called {names[0]}")
        return [program, *_C_FLAGS, *files]

    return Checker(language, _ends_in(endings), command, parse_lines)


def _of_one_s_own(glob: str, command: str) -> Checker:
    return Checker(
        command,
        lambda file: matches(glob, file),
        lambda files: command.replace("{files}", shlex.join(files)),
        parse_lines,
    )


def _ruff() -> str | None:
    """Ours or the machine's, never one that lies in the root."""
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.exists() else shutil.which("ruff")
