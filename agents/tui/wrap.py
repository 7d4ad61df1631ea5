"""Text broken into lines of a screen's width, piece by piece as it streams in.

Breaking is greedy, so a new piece can only change the last line: the work is that of the new text, however long the
text before it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len, split_text

_CHUNK = 1024
"""Characters taken up at a time, so that a line without end is not copied once for each line of the screen."""


class Row(NamedTuple):
    """`begins`: a line of the text begins here; the other rows go on with one."""

    text: str
    begins: bool


class Wrap:
    def __init__(self, width: int) -> None:
        self.width = max(width, 2)  # a wide character must fit
        self.rows = [Row("", True)]

    def feed(self, text: str) -> int:
        """Take a piece; from which row on the rows are new."""
        first = len(self.rows) - 1
        for number, piece in enumerate(text.split("\n")):
            if number:
                self.rows.append(Row("", True))
            for start in range(0, len(piece), _CHUNK):
                self._extend(piece[start : start + _CHUNK])
        return first

    def _extend(self, piece: str) -> None:
        text, begins = self.rows.pop()
        for number, part in enumerate(_broken(text + piece, self.width)):
            self.rows.append(Row(part, begins and not number))


def wrapped(text: str, width: int) -> list[Row]:
    wrap = Wrap(width)
    wrap.feed(text)
    return wrap.rows


def clipped(text: str, width: int) -> str:
    """One line in at most `width` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return split_text(text, max(width - 1, 0))[0].rstrip() + "…" if width > 0 else ""


def _broken(text: str, width: int) -> Iterator[str]:
    """After a space where there is one in the second half of the row, else where the row is full."""
    while cell_len(text) > width:
        full = _fitting(text, width)
        space = text.rfind(" ", full // 2, full + 1)
        end, after = (full, full) if space <= 0 else (space, space + 1)
        yield text[:end]
        text = text[after:]
    yield text


def _fitting(text: str, width: int) -> int:
    """How many characters fit: at least one."""
    return width if text[:width].isascii() else max(1, _longest(text, width))


def _longest(text: str, width: int) -> int:
    fits, beyond = 0, min(len(text), 8 * width)
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if cell_len(text[:middle]) <= width else (fits, middle)
    return fits
