"""The tool that applies a patch to many files at once, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from tools.errors import PathFault, ToolFault
from tools.family import ToolSpec
from tools.functions import check_parses
from tools.patch import Action, FilePatch, apply, parse
from tools.sandbox import Sandbox
from tools.text import encode_text, read_text

_NEW_MODE, _EXECUTABLE = 0o644, 0o111


class PatchTools:
    """apply_patch."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.apply_patch, read_only=False),)

    def apply_patch(
        self,
        patch: Annotated[str, Field(description="Unified diff, or *** Begin Patch ... *** End Patch.")],
    ) -> str:
        """Change, add, delete or rename files by a patch, all of it or nothing. Each hunk must fit in one place."""
        files = parse(patch)
        with self._sandbox.changing:
            tree = _Tree(self._sandbox)
            said = [tree.take(file) for file in files]
            if not tree.changes:
                raise ToolFault("the patch changes nothing")
            tree.write()
        return "\n".join(said + tree.warnings())


@dataclass
class _File:
    """A file's text and mode; None where there is none."""

    text: str | None = None
    mode: int = _NEW_MODE


@dataclass
class _Tree:
    """The files that a patch names, as they were and as they will be. Nothing is written before `write`."""

    sandbox: Sandbox
    before: dict[str, _File] = field(default_factory=dict)
    after: dict[str, _File] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """Each path as the patch writes it, which may be a link."""

    @property
    def changes(self) -> list[str]:
        return [path for path, file in self.after.items() if file != self.before[path]]

    def take(self, patch: FilePatch) -> str:
        """Apply one file's part; a line that says what it does. ToolFault for what doesn't fit."""
        match patch.action:
            case Action.ADD:
                return self._add(patch)
            case Action.DELETE:
                return self._delete(patch)
            case Action.UPDATE:
                return self._update(patch)

    def _add(self, patch: FilePatch) -> str:
        path, file = self._at(patch.path, new=True)
        file.text = apply(path, "", patch.hunks)
        file.mode = _NEW_MODE | (_EXECUTABLE if patch.executable else 0)
        return f"added {path} ({_count(file.text)})"

    def _delete(self, patch: FilePatch) -> str:
        path, file = self._at(patch.path)
        if patch.hunks and apply(path, _text(path, file), patch.hunks):
            raise ToolFault(f"nothing was changed: the patch deletes {path!r} but not all of its lines")
        file.text = None
        return f"deleted {path}"

    def _update(self, patch: FilePatch) -> str:
        path, file = self._at(patch.path)
        text = apply(path, _text(path, file), patch.hunks) if patch.hunks else _text(path, file)
        mode = file.mode if patch.executable is None else _with_execution(file.mode, patch.executable)
        if not patch.target:
            file.text, file.mode = text, mode
            return f"changed {path} ({_tally(patch)})"
        file.text = None
        target, moved = self._at(patch.target, new=True)
        moved.text, moved.mode = text, mode
        return f"renamed {path} to {target} ({_tally(patch)})"

    def _at(self, path: str, *, new: bool = False) -> tuple[str, _File]:
        """The file at a path, as the patch has left it so far; it must be there, or must not."""
        jail = self.sandbox.jail
        key = jail.relative(path)
        self.written[key] = path
        if key not in self.after:
            there = jail.resolve(path).exists()
            found = (read_text(self.sandbox, key), jail.mode(key)) if there else (None, _NEW_MODE)
            self.before[key], self.after[key] = _File(*found), _File(*found)
        file = self.after[key]
        if new and file.text is not None:
            raise PathFault(f"nothing was changed: {path!r} exists already; change it instead of adding it")
        if not new and file.text is None:
            raise PathFault(f"nothing was changed: {path!r} does not exist; find its path with find_files")
        return key, file

    def write(self) -> None:
        """Write all changes; what was written before one that fails is put back."""
        written: list[str] = []
        try:
            for path in sorted(self.changes, key=lambda path: self.after[path].text is None):
                self._put(path, self.after[path])
                written.append(path)
        except ToolFault as fault:
            for path in reversed(written):
                self._put(path, self.before[path])
            raise ToolFault(f"nothing was changed: {fault}") from None

    def _put(self, path: str, file: _File) -> None:
        if file.text is None:
            self.sandbox.jail.remove(self.written[path])
        else:
            self.sandbox.jail.write(path, encode_text(self.sandbox, path, file.text), file.mode)

    def warnings(self) -> list[str]:
        """What doesn't parse now."""
        texts = {path: self.after[path].text for path in self.changes if path.endswith(".py")}
        broken = {path: check_parses(text) for path, text in texts.items() if text is not None}
        return [f"note: {path} does not parse now: {reason}" for path, reason in broken.items() if reason]


def _text(path: str, file: _File) -> str:
    assert file.text is not None, path
    return file.text


def _with_execution(mode: int, executable: bool) -> int:
    return mode | _EXECUTABLE if executable else mode & ~_EXECUTABLE


def _count(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{lines} line{'s' * (lines != 1)}"


def _tally(patch: FilePatch) -> str:
    marks = [mark for hunk in patch.hunks for mark, _ in hunk.lines]
    return f"+{marks.count('+')} -{marks.count('-')}"
