"""Which function a failing test accuses: pure analysis of source text.

First the innermost function of ours in the failure's traceback, then the functions that the failing test
calls. Tests themselves are never suspects.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.facts import files_of
from agents.verdict import Failure
from tools.errors import PathFault
from tools.sandbox.jail import Jail

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FRAME = re.compile(r"([\w./-]+\.py):(\d+)")
_TEST_FOLDERS = {"test", "tests", "testing"}
_MOST_FILES = 2000
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Suspect:
    path: str
    """Relative to the repository."""
    name: str
    source: str
    """From `def` to the last line, dedented; decorators left out."""

    @property
    def opening(self) -> str:
        """How a corrected version must begin, as a regular expression."""
        return f"^{'async ' if self.source.startswith('async') else ''}def {self.name}\\("


def suspects(repo: Path, failures: Iterable[Failure]) -> list[Suspect]:
    """The accused, most accused first. Several failures that share a function accuse it more."""
    sources = _sources(repo)
    code = {path: text for path, text in sources.items() if not is_test(path)}
    accused: Counter[Suspect] = Counter()
    for failure in failures:
        accused.update(set(_in_traceback(code, failure)) or set(_called(sources, code, failure)))
    return [suspect for suspect, _ in accused.most_common()]


def is_test(path: str) -> bool:
    *folders, name = path.split("/")
    if _TEST_FOLDERS.intersection(folders):
        return True
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


def _sources(repo: Path) -> dict[str, str]:
    paths = [path for path in files_of(repo, _MOST_FILES) if path.endswith(".py")]
    jail, texts = Jail(repo), {}
    for path in paths:
        with contextlib.suppress(PathFault):  # a pipe, a link that leaves the repository, or gone
            texts[path] = jail.read(path, _MOST_BYTES).decode(errors="replace")
    return texts


def _functions(text: str) -> list[Function]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def _in_traceback(code: dict[str, str], failure: Failure) -> Iterator[Suspect]:
    frames = [(failure.file, failure.line), *((f, int(n)) for f, n in _FRAME.findall(failure.message))]
    for file, line in reversed(frames):
        for path, text in code.items():
            if not file or not (file == path or file.endswith(f"/{path}")):
                continue
            around = [node for node in _functions(text) if node.lineno <= line <= (node.end_lineno or 0)]
            if around:
                innermost = max(around, key=lambda node: node.lineno)
                yield _suspect(path, text, innermost)
                return


def _called(sources: dict[str, str], code: dict[str, str], failure: Failure) -> Iterator[Suspect]:
    file, _, name = failure.test.partition("::")
    name = name.rsplit("::", 1)[-1].split("[")[0]
    test = next((node for node in _functions(sources.get(file, "")) if node.name == name), None)
    called = set(_names_called(test)) if test else set()
    for path, text in code.items():
        for node in _functions(text):
            if node.name in called:
                yield _suspect(path, text, node)


def _names_called(test: Function) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def _suspect(path: str, text: str, node: Function) -> Suspect:
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    source = "\n".join(line[node.col_offset :] for line in lines)
    return Suspect(path, node.name, source.rstrip())
