"""Applies the hunks of one file to its text. Each must fit in exactly one place."""

from __future__ import annotations

from collections.abc import Sequence

from tools.errors import ToolFault
from tools.nearmiss import closest
from tools.patch.model import Hunk
from tools.text import numbered

_SHOWN_PLACES = 8
_CLOSING = (")", "]", "}")


def apply(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """`text` after all hunks, in order. ToolFault names the hunk that doesn't fit, and what comes close."""
    pieces = text.split("\n")
    lines = [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
    plain = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    end = "\r\n" if "\r\n" in text else "\n"
    result: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        where = f"hunk {number} of {path!r}" if len(hunks) > 1 else f"the hunk of {path!r}"
        start = _Search(where, plain, hunk, done).place()
        result += lines[done:start]
        done = _replace(hunk, lines, start, end, result)
    result += lines[done:]
    return _joined(result, end)


def _replace(hunk: Hunk, lines: list[str], start: int, end: str, result: list[str]) -> int:
    """Add the new lines; lines that stay keep their own ends. The first line behind the hunk."""
    at = start
    for mark, text in hunk.lines:
        if mark == "+":
            result.append(text + end)
        else:
            result += lines[at : at + 1] if mark == " " else []
            at += 1
    if hunk.bare_end and at == len(lines) and result:
        result[-1] = result[-1].removesuffix("\n").removesuffix("\r")
    return at


def _joined(lines: list[str], end: str) -> str:
    """Only the last line may have no end."""
    return "".join([*(line if line.endswith("\n") else line + end for line in lines[:-1]), *lines[-1:]])


class _Search:
    """The one place of a hunk in the lines of a file, not before `start`."""

    def __init__(self, where: str, lines: list[str], hunk: Hunk, start: int) -> None:
        self._where, self._lines, self._hunk, self._start = where, lines, hunk, start
        self._after = start

    def place(self) -> int:
        for anchor in self._hunk.anchors:
            self._after = self._behind(anchor)
        old = self._hunk.old
        if not old:
            return self._place_of_nothing()
        found = [at for at in self._places(old) if at >= self._after]
        if self._hunk.at_end:
            found = [at for at in found if not any(self._lines[at + len(old) :])]
        if len(found) > 1:
            found = self._nearest(found)
        if len(found) != 1:
            raise ToolFault(f"nothing was changed: {self._where} {self._why(old, found)}")
        return found[0]

    def _places(self, wanted: list[str]) -> list[int]:
        first, size = wanted[0], len(wanted)
        lines = self._lines
        return [at for at, line in enumerate(lines) if line == first and lines[at : at + size] == wanted]

    def _behind(self, anchor: str) -> int:
        """The line after the only one like the anchor, or after the first that is still to come."""
        same = [at for at, line in enumerate(self._lines) if line.strip() == anchor and at >= self._after]
        if not same:
            near = _near(self._lines, anchor)
            raise ToolFault(f"nothing was changed: {self._where} names a line {anchor!r} that is not there{near}")
        self._anchored = len(same) == 1
        return same[0] + 1

    def _place_of_nothing(self) -> int:
        """Where lines go that come with none around them."""
        if not self._lines or self._hunk.at_end:
            return len(self._lines)
        if self._hunk.anchors and self._anchored:
            return self._after
        raise ToolFault(f"nothing was changed: {self._where} has no old lines; add some of the file around it")

    def _nearest(self, found: list[int]) -> list[int]:
        """What the header says about several places that fit: the line number, or the block of the anchor."""
        if self._hunk.first - 1 in found:
            return [self._hunk.first - 1]
        if not (self._hunk.anchors and self._anchored):
            return found
        anchor = self._lines[self._after - 1]
        block = self._after
        while block < len(self._lines) and _is_inside(anchor, self._lines[block]):
            block += 1
        return [at for at in found if at < block] or found

    def _why(self, old: list[str], found: list[int]) -> str:
        if found:
            places = ", ".join(str(at + 1) for at in found[:_SHOWN_PLACES])
            return f"fits in {len(found)} places, at lines {places}: add lines around it"
        if (new := self._hunk.new) and (there := self._places(new)):
            return f"is there already, at line {there[0] + 1}"
        if earlier := self._places(old):
            before = "its @@ line" if self._after > self._start else "the hunk above it"
            return f"fits only at line {earlier[0] + 1}, before {before}: put hunks in the order of the file"
        return f"does not fit: its old lines are not in the file{_near(self._lines, chr(10).join(old))}"


def _is_inside(head: str, line: str) -> bool:
    """Whether a line belongs to the block that `head` begins, by its margin."""
    bare = line.lstrip()
    return not bare or len(line) - len(bare) > len(head) - len(head.lstrip()) or bare.startswith(_CLOSING)


def _near(lines: list[str], wanted: str) -> str:
    near = closest("\n".join(lines), wanted)
    if near is None:
        return ". Read the file and copy its lines exactly"
    why = "\nThey differ in white space only." if near.only_whitespace else ""
    return f". The closest lines are:\n{numbered(near.lines, near.first)}{why}"
