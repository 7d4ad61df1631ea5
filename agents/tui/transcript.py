"""The conversation on the screen: blocks as lines, of which only those in sight are drawn.

What a change costs is the lines that changed and, where a block in the middle grows, one addition for each block
behind it. Nothing else is laid out again but on a new width.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agents.tui.blocks import Block
from agents.tui.ink import Line, plain
from agents.tui.panel import segments

_CHOSEN = Style(reverse=True)


class Transcript(ScrollView, can_focus=True):
    """A `Canvas`. It stays at the end while text comes in, unless someone scrolled up."""

    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)"),
        Binding("down", "choose(1)"),
        Binding("enter,space", "fold"),
        Binding("tab,escape", "leave"),
    ]

    class Left(Message):
        """The person is done here."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._blocks: list[Block] = []
        self._places: dict[Block, int] = {}
        self._starts: list[int] = []
        """The line each block begins at, its empty line included."""
        self._height = 0
        self._chosen: Block | None = None
        self._follows = True
        self._columns = 80
        """The width that the lines are made for, which follows that of the widget."""

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    def add(self, block: Block) -> None:
        self._places[block] = len(self._blocks)
        self._blocks.append(block)
        self._starts.append(self._height)
        self.changed(block)

    def changed(self, block: Block) -> None:
        first = self._places[block]
        height = self._starts[first]
        for at in range(first, len(self._blocks)):
            self._starts[at] = height
            height += self._space(at) + len(self._lines(at))
        self._height = height
        self._show()

    def toggle_all(self) -> None:
        """Open all folds, or close all if all are open."""
        folds = [block for block in self._blocks if block.foldable]
        is_open = all(block.is_open for block in folds)
        for block in folds:
            if block.is_open is is_open:
                block.toggle()
        if folds:
            self.changed(folds[0])

    def action_choose(self, step: int) -> None:
        folds = [block for block in self._blocks if block.foldable]
        if folds:
            at = folds.index(self._chosen) + step if self._chosen in folds else len(folds) - 1
            self._chosen = folds[min(max(at, 0), len(folds) - 1)]
            start = self._starts[self._places[self._chosen]]
            if not self.scroll_offset.y <= start < self.scroll_offset.y + self.size.height - 1:
                self.scroll_to(y=max(start - self.size.height // 2, 0), animate=False, immediate=True)
            self.refresh()

    def action_fold(self) -> None:
        if self._chosen:
            self._chosen.toggle()
            self.changed(self._chosen)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_focus(self) -> None:
        self._chosen = None
        self.action_choose(0)

    def on_blur(self) -> None:
        self._chosen = None
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        at, row = self._at(event.y + self.scroll_offset.y)
        if at is not None and row == 0 and self._blocks[at].foldable:
            self._blocks[at].toggle()
            self.changed(self._blocks[at])

    def on_resize(self) -> None:
        self._columns = max(self.scrollable_content_region.width, 4)
        if self._blocks:
            self.changed(self._blocks[0])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        at, row = self._at(y)
        style = self.rich_style
        if at is None or row < 0:
            return Strip.blank(self._columns, style)
        spans = self._lines(at)[row]
        look = style + _CHOSEN if self._blocks[at] is self._chosen and row == 0 else style
        strip = Strip(self._selected(segments(spans, look), y)).crop_extend(0, self._columns, style)
        return strip.apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        begin, end = selection
        first, last = begin.y if begin else 0, end.y if end else self._height - 1
        rows = [plain(self._line(y)) for y in range(first, min(last, self._height - 1) + 1)]
        if rows and end:
            rows[-1] = rows[-1][: end.x]
        if rows and begin:
            rows[0] = rows[0][begin.x :]
        return "\n".join(row.rstrip() for row in rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _show(self) -> None:
        self.virtual_size = Size(self._columns, self._height)
        if self._follows:
            self._to_end()
        self.refresh()

    def _to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def _lines(self, at: int) -> Sequence[Line]:
        return self._blocks[at].lines(self._columns)

    def _space(self, at: int) -> int:
        """Empty lines before a block: parts of a kind that belongs together have none between them."""
        return int(at > 0 and (self._blocks[at].gap or self._blocks[at - 1].gap))

    def _at(self, y: int) -> tuple[int | None, int]:
        """The block at a line, and which of its lines that is; -1 for the empty one before it."""
        if not 0 <= y < self._height:
            return None, 0
        at = bisect_right(self._starts, y) - 1
        return at, y - self._starts[at] - self._space(at)

    def _line(self, y: int) -> Line:
        at, row = self._at(y)
        return () if at is None or row < 0 else self._lines(at)[row]

    def _selected(self, pieces: list[Segment], y: int) -> list[Segment]:
        span = self.text_selection.get_span(y) if self.text_selection else None
        if span is None:
            return pieces
        mark = self.screen.get_component_rich_style("screen--selection")
        start, end = span
        out, at = [], 0
        for text, style, _ in pieces:
            low = min(max(start - at, 0), len(text))
            high = len(text) if end == -1 else min(max(end - at, 0), len(text))
            parts = ((text[:low], style), (text[low:high], (style or Style()) + mark), (text[max(high, low) :], style))
            out += [Segment(part, look) for part, look in parts if part]
            at += len(text)
        return out
