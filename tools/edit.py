"""Tools that change a part of a file: exact search and replace, and a whole Python function at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec
from tools.functions import (
    Function,
    check_parses,
    find_functions,
    function_names,
    parse_function,
    splice,
    syntax_reason,
)
from tools.nearmiss import closest
from tools.sandbox import Sandbox
from tools.text import encode_text, numbered, read_text, short_diff
from tools.walk import walk

_TEST_FOLDERS = frozenset({"test", "tests", "testing"})
_DIFF_CHARS = 4000


class EditTools:
    """edit_file, replace_function. One change at a time, so that parallel calls don't lose one another's work."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.edit_file, read_only=False), ToolSpec(self.replace_function, read_only=False))

    def edit_file(
        self,
        path: Annotated[str, Field(description="Path relative to the root.")],
        old: Annotated[str, Field(description="Text to replace, exactly as in the file; must occur once.")],
        new: Annotated[str, Field(description="Text to put in its place.")],
    ) -> str:
        """Replace one exact piece of text in a file. Include enough lines that it occurs only once."""
        with self._sandbox.changing:
            text = read_text(self._sandbox, path)
            changed = _replace_once(path, text, old, new)
            self._sandbox.jail.write(path, encode_text(self._sandbox, path, changed))
        broken = check_parses(changed) if path.endswith(".py") else None
        warning = f"\nnote: {path} does not parse now: {broken}" if broken else ""
        return short_diff(path, text, changed, _DIFF_CHARS) + warning

    def replace_function(
        self, code: Annotated[str, Field(description="One whole Python function, from def to its last line.")]
    ) -> str:
        """Replace the Python function or method of the same name by this new code."""
        new = parse_function(code)
        with self._sandbox.changing:
            path, text, old = self._find(new.name)
            changed = splice(text, old, new)
            if changed == text:
                raise ToolFault(f"{new.name} in {path} is already exactly this code; nothing was changed")
            if reason := check_parses(changed):
                raise ToolFault(f"{path} would not parse with this code, {reason}; nothing was changed")
            self._sandbox.jail.write(path, encode_text(self._sandbox, path, changed))
        return short_diff(path, text, changed, _DIFF_CHARS)

    def _find(self, name: str) -> tuple[str, str, Function]:
        """The only function of that name outside the tests: its file, the file's text, and its node."""
        found: list[tuple[str, str, Function]] = []
        broken: list[str] = []
        for path, text in self._sources():
            if name in text:
                try:
                    found += ((path, text, node) for node in find_functions(text, name))
                except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                    broken.append(f"{path} ({syntax_reason(error)})")
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(f"{path}:{node.lineno}" for path, _, node in found[:8])
            raise ToolFault(f"there are {len(found)} functions named {name}: {places}; use edit_file instead")
        if broken:
            raise ToolFault(f"no function {name} found, and these files don't parse: {', '.join(broken[:4])}")
        raise ToolFault(f"no function named {name} in the non-test Python files{self._similar(name)}")

    def _similar(self, name: str) -> str:
        names = {known for _, text in self._sources() for known in function_names(text)}
        close = difflib.get_close_matches(name, sorted(names), n=4) or sorted(names)[:8]
        return f"; there are: {', '.join(close)}" if close else ""

    def _sources(self) -> Iterator[tuple[str, str]]:
        for entry in walk(self._sandbox, "."):
            if not entry.is_folder and entry.path.endswith(".py") and not _is_test(entry.path):
                try:
                    yield entry.path, read_text(self._sandbox, entry.path)
                except ToolFault:
                    continue


def _replace_once(path: str, text: str, old: str, new: str) -> str:
    if not old:
        raise ToolFault("old is empty; use write_file to write a whole file")
    if "\r\n" in text:
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    if old == new:
        raise ToolFault("old and new are the same; nothing was changed")
    count = text.count(old)
    if count > 1:
        raise ToolFault(f"old occurs {count} times in {path!r}, in lines {_lines_of(text, old)}; add lines around it")
    if not count:
        raise ToolFault(f"old does not occur in {path!r}.{_hint(text, old)}")
    return text.replace(old, new)


def _lines_of(text: str, old: str) -> str:
    lines: list[str] = []
    at = text.find(old)
    while at >= 0 and len(lines) < 8:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(lines)


def _hint(text: str, old: str) -> str:
    near = closest(text, old)
    if near is None:
        return " Read the file and copy the text exactly."
    why = " They differ in white space only." if near.only_whitespace else ""
    return f" The closest lines are:\n{numbered(near.lines, near.first)}\n{why.strip()}".rstrip()


def _is_test(path: str) -> bool:
    *folders, name = path.split("/")
    is_test_name = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return is_test_name or any(folder in _TEST_FOLDERS for folder in folders)
