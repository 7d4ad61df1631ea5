"""Lines on the screen: how they are drawn, and a widget that shows a few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agents.tui.ink import Ink, Line

STYLES = {ink: Style.parse(ink.value) if ink.value else Style() for ink in Ink}


def segments(spans: Line, base: Style) -> list[Segment]:
    """`spans` are clean text: nothing is read as markup."""
    return [Segment(span.text, base + STYLES[span.ink]) for span in spans if span.text]


class Panel(Widget):
    """As high as its lines, which are made for the width that there is."""

    def __init__(self, lines: Callable[[int], Sequence[Line]], id: str | None = None) -> None:
        super().__init__(id=id)
        self._make = lines
        self._made: tuple[int, Sequence[Line]] = (0, ())

    def set(self, lines: Callable[[int], Sequence[Line]]) -> None:
        self._make, self._made = lines, (0, ())
        self.refresh(layout=True)

    def lines(self, width: int) -> Sequence[Line]:
        if self._made[0] != width:
            self._made = width, self._make(width)
        return self._made[1]

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))

    def render_line(self, y: int) -> Strip:
        lines, width = self.lines(self.size.width), self.size.width
        spans = lines[y] if y < len(lines) else ()
        return Strip(segments(spans, self.rich_style)).crop_extend(0, width, self.rich_style)
