"""The parts that a transcript consists of. A block knows what it says and how that looks in a given width; it knows
nothing of the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from agents.export.diffs import Change, lines_of
from agents.tui.ink import Ink, Line, Span, clean, line
from agents.tui.wrap import wrapped

_DIFF = {Change.FILE: Ink.FILE, Change.PLACE: Ink.HUNK, Change.ADDED: Ink.ADDED, Change.REMOVED: Ink.REMOVED}


class Block:
    """Lines for a width, made once and kept until the block changes."""

    gap = True
    """An empty line comes before it."""
    foldable = False
    is_open = False

    def __init__(self) -> None:
        self._width = 0
        self._lines: list[Line] = []

    def lines(self, width: int) -> Sequence[Line]:
        if width != self._width:
            self._lines, self._width = self._layout(width), width
        return self._lines

    def toggle(self) -> None:
        self.is_open = not self.is_open
        self._width = 0

    def _layout(self, width: int) -> list[Line]:
        raise NotImplementedError


class Said(Block):
    """A person's words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = clean(text)

    def _layout(self, width: int) -> list[Line]:
        bar = Span("▌ ", Ink.PERSON)
        return [(bar, Span(row.text, Ink.STRONG)) for row in wrapped(self._text, width - 2)]


class Notice(Block):
    """What Sapwood itself says, one thing a line."""

    gap = False

    def __init__(self, text: str, ink: Ink = Ink.DIM) -> None:
        super().__init__()
        self._text, self._ink = clean(text), ink

    def _layout(self, width: int) -> list[Line]:
        return [line(f"  {row.text}", self._ink) for row in wrapped(self._text, width - 2)]


class Listing(Block):
    """Lines with looks of their own; those that do not fit go on below, under their last column."""

    def __init__(self, rows: Iterable[Line]) -> None:
        super().__init__()
        self._rows = [tuple(Span(clean(span.text), span.ink) for span in row) for row in rows]

    def _layout(self, width: int) -> list[Line]:
        return [folded for row in self._rows for folded in _hung(row, width)]


class Patch(Block):
    """A diff in colour."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def _layout(self, width: int) -> list[Line]:
        return paint(self._text, width)


def paint(text: str, width: int, ink: Ink = Ink.PLAIN, most: int | None = None, brief: bool = False) -> list[Line]:
    """The lines of `text`, in the colours of a diff where it is one, indented by two; `most` of them, and how many more
    there are. `brief` leaves out the name of the file, where it is about one.
    """
    text = clean(text.rstrip())
    rows = [(change.text, _DIFF.get(change.change, Ink.DIM)) for change in lines_of(text)]
    if brief and sum(row.startswith("+++ ") for row, _ in rows) == 1:
        rows = [row for row in rows if row[1] is not Ink.FILE]
    rows = rows or [(row, ink) for row in text.split("\n")]
    hidden = len(rows) - len(rows[:most])
    painted = [line(f"  {part.text}", look) for row, look in rows[:most] for part in wrapped(row, width - 2)]
    return [*painted, line(f"  … {hidden} more line{'s' * (hidden > 1)}", Ink.DIM)] if hidden else painted


def _hung(row: Line, width: int) -> list[Line]:
    *head, last = row
    indent = 2 + sum(cell_len(span.text) for span in head)
    if indent > width // 2:
        rest = wrapped(last.text, width - 4)
        own = [(Span(f"    {part.text}", last.ink),) for part in rest]
        return [(Span("  "), *head), *own] if head else [*own]
    first, *others = wrapped(last.text, width - indent)
    pad = Span(" " * indent)
    return [(Span("  "), *head, Span(first.text, last.ink)), *((pad, Span(o.text, last.ink)) for o in others)]
