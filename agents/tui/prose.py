"""What a model writes, as it streams in: its answer, with the marks of Markdown shown as looks, and its reasoning."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.tui.blocks import Block
from agents.tui.ink import Ink, Line, Span, clean, clean_line, line
from agents.tui.wrap import Row, Wrap, clipped

_MARKS = re.compile(r"(`[^`\n]+`|\*\*[^*\n]+\*\*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_HEADING = re.compile(r"#{1,6} ")
_TAIL = 400
"""Characters of reasoning that are at hand for the folded line."""


class Streamed(Block):
    """Adding text costs as much as that text."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._wrap = Wrap(0)

    def add(self, text: str) -> None:
        text = clean(text)
        self._pieces.append(text)
        if self._width:
            self._feed(text)

    def _layout(self, width: int) -> list[Line]:
        self._wrap, self._lines = Wrap(width - 2), []
        self._feed("".join(self._pieces))
        return self._lines

    def _feed(self, text: str) -> None:
        raise NotImplementedError


class Prose(Streamed):
    """Nothing of the text is taken away or rearranged: only looks differ."""

    def __init__(self) -> None:
        super().__init__()
        self._fenced = [False]
        """Before each row: is it inside a fence?"""

    def _feed(self, text: str) -> None:
        first = self._wrap.feed(text)
        del self._lines[first:], self._fenced[first + 1 :]
        for row in self._wrap.rows[first:]:
            fenced = self._fenced[-1]
            is_fence = row.begins and bool(_FENCE.match(row.text))
            self._lines.append((Span("  "), *_looks(row, fenced or is_fence)))
            self._fenced.append(fenced != is_fence)


class Thought(Streamed):
    """Reasoning: one line with its newest words until it is opened."""

    foldable = True

    def __init__(self) -> None:
        super().__init__()
        self._tail = ""
        self._words = 0
        self._is_over = False

    def add(self, text: str) -> None:
        goes_on = bool(self._tail) and not self._tail[-1].isspace() and not text[:1].isspace()
        self._words += len(text.split()) - (goes_on and bool(text))
        self._tail = (self._tail + text)[-_TAIL:]
        super().add(text)

    def end(self) -> None:
        self._is_over = True
        if self._width:
            self._feed("")

    def _feed(self, text: str) -> None:
        first = self._wrap.feed(text) if self.is_open else 0
        del self._lines[first + 1 :]
        self._lines[:1] = [self._head()]
        if self.is_open:
            self._lines += [line(f"  {row.text}", Ink.DIM) for row in self._wrap.rows[first:]]

    def _head(self) -> Line:
        mark, width = "▾" if self.is_open else "▸", self._wrap.width
        if self._is_over:
            return line(f"{mark} thought, {self._words} word{'s' * (self._words != 1)}", Ink.DIM)
        newest = clean_line(self._tail)[-max(width - 14, 0) :] if not self.is_open else ""
        return line(clipped(f"{mark} thinking … {newest}", width), Ink.DIM)


def _looks(row: Row, fenced: bool) -> Sequence[Span]:
    if fenced:
        return (Span(row.text, Ink.CODE),)
    if row.begins and _HEADING.match(row.text):
        return (Span(row.text, Ink.STRONG),)
    parts = _MARKS.split(row.text)
    return [Span(part, _ink(part) if place % 2 else Ink.PLAIN) for place, part in enumerate(parts) if part]


def _ink(part: str) -> Ink:
    return Ink.CODE if part.startswith("`") else Ink.STRONG
