"""Which queries attend to which runs of KV slots in one step: pure bookkeeping, made once for all layers.

A slot holds the key and value of one token behind one exact prefix, so requests that list the same slot share
that context, whatever the tree looks like. A sweep over the slot axis cuts it wherever the set of requests
changes: each piece is read once for everyone who needs it.

    slots      0────────────100────────150      300───340
    request A  [  shared    ][ A's own  ]
    request B  [  shared    ]                    [ B's ]
    spans      {A, B}         {A}                {B}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.attention.runs import Run, cut_runs, total


@dataclass(frozen=True)
class Segment:
    """The tokens of one request in a step: they follow `context`, whose KV is computed, and fill `slots`."""

    context: Sequence[Run]
    slots: Sequence[Run]
    count: int


@dataclass(frozen=True)
class Span:
    """The step's tokens `rows` attend to the slots of `runs`.

    With `causal` None they all see all of it. Otherwise the last len(rows) slots are the rows' own, and row i
    sees `causal` + i + 1 slots: all before its own, and its own.
    """

    rows: tuple[int, ...]
    runs: tuple[Run, ...]
    causal: int | None = None

    @property
    def length(self) -> int:
        return total(self.runs)


@dataclass(frozen=True)
class AttentionPlan:
    """The whole step: each (query, visible slot) pair is in exactly one span; `runs` are the tokens' own slots."""

    tokens: int
    runs: tuple[Run, ...]
    spans: tuple[Span, ...]
    segments: tuple[Segment, ...]
    """What was planned."""


def plan_attention(segments: Sequence[Segment]) -> AttentionPlan:
    """Plan the attention of a step in which `segments` follow one another in the flat token batch."""
    rows = _rows(segments)
    contexts: dict[tuple[int, ...], list[Run]] = {(owner,): [] for owner in range(len(segments))}
    for start, length, owners in _sweep([segment.context for segment in segments]):
        contexts.setdefault(owners, []).append((start, length))
    own = [cut_runs(segment.slots, segment.count) for segment in segments]
    spans = []
    for owners, runs in contexts.items():
        if len(owners) == 1:
            spans.append(Span(tuple(rows[owners[0]]), (*runs, *own[owners[0]]), total(runs)))
        else:
            spans.append(Span(tuple(row for owner in owners for row in rows[owner]), tuple(runs)))
    return AttentionPlan(sum(map(len, rows)), tuple(run for runs in own for run in runs), tuple(spans), tuple(segments))


def _rows(segments: Sequence[Segment]) -> list[range]:
    rows, first = [], 0
    for segment in segments:
        rows.append(range(first, first + segment.count))
        first += segment.count
    return rows


def _sweep(contexts: Sequence[Sequence[Run]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Cut the slot axis where the set of owners changes: (start, length, owners) in slot order."""
    edges: dict[int, list[tuple[int, bool]]] = {}
    for owner, runs in enumerate(contexts):
        for start, length in filter(lambda run: run[1], runs):
            edges.setdefault(start, []).append((owner, True))
            edges.setdefault(start + length, []).append((owner, False))
    pieces: list[tuple[int, int, tuple[int, ...]]] = []
    active: set[int] = set()
    previous = 0
    for edge in sorted(edges):
        if active:
            _append(pieces, previous, edge - previous, tuple(sorted(active)))
        # Ends before starts: neighbouring runs of one owner meet on the same edge.
        for owner, opens in sorted(edges[edge], key=lambda item: item[1]):
            active.add(owner) if opens else active.discard(owner)
        previous = edge
    return pieces


def _append(pieces: list[tuple[int, int, tuple[int, ...]]], start: int, length: int, owners: tuple[int, ...]) -> None:
    if pieces and pieces[-1][2] == owners and pieces[-1][0] + pieces[-1][1] == start:
        before, run, _ = pieces.pop()
        start, length = before, run + length
    pieces.append((start, length, owners))
