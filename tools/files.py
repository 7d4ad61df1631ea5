"""Tools that read, list and write files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec
from tools.sandbox import Sandbox
from tools.text import MAX_LINE, cut, encode_text, lines_of, numbered, read_text
from tools.walk import not_all, walk

FilePath = Annotated[str, Field(description="Path relative to the root.")]
Folder = Annotated[str, Field(description="Folder relative to the root.")]


class FileTools:
    """read_file, list_files, write_file."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (
            ToolSpec(self.read_file, read_only=True),
            ToolSpec(self.list_files, read_only=True),
            ToolSpec(self.write_file, read_only=False),
        )

    def read_file(
        self,
        path: FilePath,
        start_line: Annotated[int, Field(description="First line, from 1.")] = 1,
        end_line: Annotated[int, Field(description="Last line; 0 means as many as fit.")] = 0,
    ) -> str:
        """Read a text file with line numbers. Give a range of lines to read a part of it."""
        lines = lines_of(read_text(self._sandbox, path))
        if not lines:
            return f"{path} is empty"
        first, last = max(start_line, 1), end_line if end_line > 0 else len(lines)
        if first > len(lines):
            raise ToolFault(f"{path!r} has {len(lines)} lines; start_line is {first}")
        if last < first:
            raise ToolFault(f"end_line {last} is before start_line {first}")
        return self._page(path, lines, first, min(last, len(lines)))

    def _page(self, path: str, lines: list[str], first: int, last: int) -> str:
        """As many lines as fit, and where to read on."""
        shown: list[str] = []
        room = self._sandbox.limits.text_chars
        for line in lines[first - 1 : last]:
            room -= min(len(line), MAX_LINE) + 8
            if shown and room < 0:
                break
            shown.append(line)
        end = first + len(shown) - 1
        rest = len(lines) - end
        more = f"\n[{rest} more line{'s' * (rest != 1)}; read on with start_line={end + 1}]" if rest else ""
        return numbered(shown, first) + _long_line(path, shown, first) + more

    def list_files(
        self,
        path: Folder = ".",
        depth: Annotated[int, Field(description="How many levels of folders to show.")] = 3,
    ) -> str:
        """List the files and folders below a folder, without caches and dependencies."""
        entries = walk(self._sandbox, path, max_depth=max(depth, 1))
        names = sorted(entry.path + "/" * entry.is_folder for entry in entries)
        if not names:
            return f"{path} is empty"
        how = "see them with list_files, path FOLDER, or find_files"
        return cut("\n".join(names), self._sandbox.limits.text_chars, how) + not_all(len(names))

    def write_file(self, path: FilePath, content: Annotated[str, Field(description="The whole text.")]) -> str:
        """Write a whole file, creating folders as needed. Use edit_file to change a part of a file."""
        is_new = self._sandbox.jail.write(path, encode_text(self._sandbox, path, content))
        lines = len(content.splitlines())
        return f"{'created' if is_new else 'replaced'} {path} ({lines} line{'s' * (lines != 1)})"


def _long_line(path: str, shown: list[str], first: int) -> str:
    """How to read the rest of the first line that is cut, if one is."""
    number = next((number for number, line in enumerate(shown, first) if len(line) > MAX_LINE), 0)
    if not number:
        return ""
    end = 3 * MAX_LINE
    how = f"sed -n {number}p {shlex.quote(path)} | cut -c{MAX_LINE + 1}-{end}"
    return f"\n[line {number} was cut; read on with run_command: {how}]"
