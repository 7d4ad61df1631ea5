"""What a patch says, whatever its spelling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Action(Enum):
    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"
    """Of the text, the name, the mode, or several of these."""


@dataclass(frozen=True)
class Hunk:
    """Lines that stand together in a file, and what becomes of them."""

    lines: tuple[tuple[str, str], ...]
    """Mark (space, `-` or `+`) and text, in order."""
    anchors: tuple[str, ...] = ()
    """Lines that come somewhere before, the outermost first."""
    first: int = 0
    """Where the old lines begin, from 1, if the patch is right about it; 0 where it doesn't say."""
    at_end: bool = False
    """Whether the old lines are the file's last."""
    bare_end: bool = False
    """Whether the last new line has no line feed."""

    @property
    def old(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "-"]


@dataclass(frozen=True)
class FilePatch:
    action: Action
    path: str
    target: str = ""
    """The new name of a file that is renamed."""
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None
    """What becomes of the mode; None leaves it."""
