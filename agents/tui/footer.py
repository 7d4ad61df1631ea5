"""The two lines at the bottom: what the newest turn reused and computed, and how the session stands. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rich.cells import cell_len

from agents.state import Turn
from agents.tui.ink import Ink, Line, Span, clean_line, plain
from agents.tui.wrap import clipped


class Activity(StrEnum):
    READY = "ready"
    WORKING = "working"
    ASKING = "waiting for you"
    STOPPING = "stopping"
    STOPPED = "stopped"


_LOOK = {
    Activity.READY: ("○", Ink.GOOD),
    Activity.WORKING: ("●", Ink.WARN),
    Activity.ASKING: ("◆", Ink.BAD),
    Activity.STOPPING: ("●", Ink.BAD),
    Activity.STOPPED: ("■", Ink.WARN),
}


@dataclass(frozen=True)
class Standing:
    """What the footer shows. The counts are the server's own; what it does not tell is left out."""

    activity: Activity = Activity.READY
    seconds: int = 0
    """How long it has been at work."""
    model: str = ""
    turns: Sequence[Turn] = ()
    context_limit: int | None = None


class Piece(NamedTuple):
    """A part of a line: whole, then shorter where there is no room, then left out; those of low rank first."""

    rank: int
    forms: Sequence[Line]


def footer(standing: Standing, width: int) -> tuple[Line, Line]:
    return fit(_reuse(standing), width), fit(_state(standing), width)


def fit(pieces: Sequence[Piece], width: int) -> Line:
    """The pieces in at most `width` cells, two spaces between them."""
    chosen: dict[int, int] = dict.fromkeys(range(len(pieces)), 0)
    weakest_first = sorted(chosen, key=lambda at: pieces[at].rank)
    while chosen and _width([pieces[at].forms[form] for at, form in chosen.items()]) > width:
        shrinks = [at for at in weakest_first if at in chosen and chosen[at] + 1 < len(pieces[at].forms)]
        if shrinks:
            chosen[shrinks[0]] += 1
        elif len(chosen) > 1:
            del chosen[next(at for at in weakest_first if at in chosen)]
        else:
            (at, form), *_ = chosen.items()
            return (Span(f" {clipped(plain(pieces[at].forms[form]), width - 1)}", pieces[at].forms[form][0].ink),)
    spans: list[Span] = []
    for number, (at, form) in enumerate(chosen.items()):
        spans += (Span("  " if number else " "), *pieces[at].forms[form])
    return tuple(spans)


def percent(part: int, whole: int) -> int:
    """Rounded, but neither 0 nor 100 where that would not be true."""
    if part in (0, whole) or not whole:
        return 100 * bool(part)
    return min(max(round(100 * part / whole), 1), 99)


def _reuse(standing: Standing) -> list[Piece]:
    turns = standing.turns
    if not turns:
        return [Piece(1, [(Span("no turn yet", Ink.DIM),)])]
    turn = turns[-1]
    if turn.prompt is None:
        return [Piece(1, [(Span("the server counts no tokens", Ink.DIM),)])]
    if turn.cached is None or turn.computed is None:
        unknown = Span("the server does not say what it reused", Ink.DIM)
        return [
            Piece(2, [(Span(f"prompt {turn.prompt:,}"),)]),
            Piece(1, [(unknown,), (Span("reuse unknown", Ink.DIM),)]),
        ]
    share = percent(turn.cached, turn.prompt)
    return [
        Piece(4, [_bar(turn.cached, turn.prompt, cells) for cells in (20, 10, 6)]),
        Piece(9, [(Span(f"{share}% reused", Ink.GOOD),), (Span(f"{share}%", Ink.GOOD),)]),
        Piece(8, _counts(turn.cached, turn.computed, turn.prompt)),
        *_total(turns),
    ]


def _counts(cached: int, computed: int, prompt: int) -> list[Line]:
    plus = Span(" + ", Ink.DIM)
    long = (Span(f"{cached:,} cached", Ink.ADDED), plus, Span(f"{computed:,} computed", Ink.WARN))
    mid = (Span(f"{short(cached)} cached", Ink.ADDED), plus, Span(f"{short(computed)} computed", Ink.WARN))
    least = (Span(short(cached), Ink.ADDED), plus, Span(short(computed), Ink.WARN))
    return [(*long, Span(f" = {prompt:,} prompt", Ink.DIM)), long, mid, least]


def _total(turns: Sequence[Turn]) -> list[Piece]:
    known = [(turn.cached, turn.prompt) for turn in turns if turn.cached is not None and turn.prompt is not None]
    if len(turns) < 2 or len(known) < len(turns):
        return []
    share = percent(sum(cached for cached, _ in known), sum(prompt for _, prompt in known))
    return [Piece(3, [(Span("session ", Ink.DIM), Span(f"{share}%", Ink.GOOD)), (Span(f"all {share}%", Ink.DIM),)])]


def _state(standing: Standing) -> list[Piece]:
    mark, ink = _LOOK[standing.activity]
    since = f" {standing.seconds} s" if standing.activity is Activity.WORKING else ""
    pieces = [Piece(9, [(Span(f"{mark} {standing.activity.value}{since}", ink),)])]
    turn = standing.turns[-1] if standing.turns else None
    if standing.model:
        name = clean_line(standing.model)
        shorter = [clipped(name.rpartition("/")[2], most) for most in (24, 12)]
        pieces.append(Piece(2, [(Span(form, Ink.NAME),) for form in (name, *shorter)]))
    if turn:
        pieces += [Piece(3, [(Span("TTFT ", Ink.DIM), Span(f"{turn.ttft:.2f} s"))])]
    if turn and turn.tokens_per_second:
        pieces.append(Piece(4, [(Span(f"{turn.tokens_per_second:.0f} tok/s"),)]))
    return pieces + _context(turn, standing.context_limit)


def _context(turn: Turn | None, limit: int | None) -> list[Piece]:
    if turn is None or turn.prompt is None or not limit:
        return []
    used = turn.prompt + (turn.completion or 0)
    left = max(limit - used, 0)
    share = percent(left, limit)
    ink = Ink.BAD if share < 10 else Ink.WARN if share < 25 else Ink.PLAIN
    words, label = Span(f"{share}% left", ink), Span("context ", Ink.DIM)
    bar = _bar(min(used, limit), limit, 8, Ink.PLAIN, Ink.DIM)
    return [Piece(5, [(label, *bar, Span(" "), words), (label, words), (Span("ctx ", Ink.DIM), words)])]


def _bar(part: int, whole: int, cells: int, full: Ink = Ink.ADDED, rest: Ink = Ink.WARN) -> Line:
    """A part shows at least one cell, unless it is none."""
    filled = round(cells * part / whole) if whole else 0
    filled = min(max(filled, 1 if part else 0), cells - 1 if part < whole else cells)
    return Span("━" * filled, full), Span("╌" * (cells - filled), rest)


def short(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1000:.1f}k" if number < 100_000 else f"{number / 1000:.0f}k"


def _width(forms: Sequence[Line]) -> int:
    return 1 + sum(cell_len(plain(form)) for form in forms) + 2 * (len(forms) - 1)
