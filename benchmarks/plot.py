"""A small bar chart as SVG: time to first token by turn, one colour for each server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from benchmarks.report import Summary

WIDTH, HEIGHT, MARGIN = 720, 360, 48
COLOURS = ("#2a6f4e", "#d08c28", "#4a6fa5", "#a04668", "#6b6b6b")


def ttft_chart(summaries: Mapping[str, Summary]) -> str:
    """Medians as bars, the 99th percentiles as lines above them; seconds from 0."""
    turns = max((len(summary.ttft) for summary in summaries.values()), default=0)
    worst = [spread.p99 or 0.0 for summary in summaries.values() for spread in summary.ttft]
    top = max(worst, default=0.0) or 1.0
    parts = [*_axis(top, turns)]
    for index, (name, summary) in enumerate(summaries.items()):
        colour = COLOURS[index % len(COLOURS)]
        parts += _bars(summary, colour, index, len(summaries), turns, top)
        parts.append(_text(MARGIN + index * 120, 20, name, fill=colour))
    return _document(parts)


def _bars(summary: Summary, colour: str, index: int, of: int, turns: int, top: float) -> list[str]:
    parts = []
    slot = (WIDTH - 2 * MARGIN) / max(1, turns)
    width = slot * 0.8 / of
    for turn, spread in enumerate(summary.ttft):
        if spread.median is None or spread.p99 is None:
            continue
        x = MARGIN + turn * slot + slot * 0.1 + index * width
        y, line = _y(spread.median, top), _y(spread.p99, top)
        height = HEIGHT - MARGIN - y
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')
        parts.append(_line(x + width / 2, line, x + width / 2, y, colour))
    return parts


def _axis(top: float, turns: int) -> list[str]:
    slot = (WIDTH - 2 * MARGIN) / max(1, turns)
    ticks = [top * part / 4 for part in range(5)]
    return [
        *(_line(MARGIN, _y(tick, top), WIDTH - MARGIN, _y(tick, top), "#dddddd") for tick in ticks),
        *(_text(8, _y(tick, top) + 4, f"{tick:.2g} s") for tick in ticks),
        *(_text(MARGIN + (turn + 0.4) * slot, HEIGHT - 24, f"turn {turn + 1}") for turn in range(turns)),
        _text(MARGIN, HEIGHT - 6, "time to first token: median, and p99 above it"),
    ]


def _y(seconds: float, top: float) -> float:
    return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * seconds / top


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, fill: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="12">{escape(words)}</text>'


def _document(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, ground, *parts, "</svg>\n"])
