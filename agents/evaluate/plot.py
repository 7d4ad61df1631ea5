"""The prompt tokens of each attempt as an SVG: what came from the cache, and what was computed."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from agents.evaluate.results import Result

WIDTH, ROW, LEFT, RIGHT, TOP = 760, 18, 190, 90, 40
CACHED, COMPUTED, SOLVED, UNSOLVED = "#a9cdb9", "#2a6f4e", "#2a6f4e", "#a04668"


def tokens_chart(results: Sequence[Result]) -> str:
    """A row for each attempt, its name coloured by whether it is solved. Unknown counts have no bar."""
    most = max((result.prompt or 0 for result in results), default=0) or 1
    height = TOP + ROW * len(results) + 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    legend = _text(8, 20, "prompt tokens: computed (dark), cached (light); green names are solved", "#333333")
    rows = [part for place, result in enumerate(results) for part in _row(result, TOP + ROW * place, most)]
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', legend, *rows, "</svg>\n"])


def _row(result: Result, y: int, most: int) -> list[str]:
    name = result.task if result.attempt == 1 else f"{result.task} ({result.attempt})"
    parts = [_text(8, y + 12, name, SOLVED if result.solved else UNSOLVED)]
    if result.prompt is None:
        return [*parts, _text(LEFT, y + 12, "not reported", "#6b6b6b")]
    scale = (WIDTH - LEFT - RIGHT) / most
    computed = result.computed if result.computed is not None else result.prompt
    parts.append(_bar(LEFT, y, computed * scale, COMPUTED))
    parts.append(_bar(LEFT + computed * scale, y, (result.prompt - computed) * scale, CACHED))
    return [*parts, _text(LEFT + result.prompt * scale + 6, y + 12, str(result.prompt), "#333333")]


def _bar(x: float, y: int, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{ROW - 5}" fill="{colour}"/>'


def _text(x: float, y: int, words: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}" font-size="11">{escape(words)}</text>'
