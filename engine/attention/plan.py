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

TAIL_LIMIT = 128
"""A run of one decoding request up to this long is computed in one padded batch with the others' runs."""

GATHER_BASE, GATHER_PER_ROW = 256, 4
"""Runs of fewer slots than base + rows * this, seen by the same `rows` queries, are copied together: a copy costs by
the slot, one more kernel call and merge by the query (measured on one machine, the order of magnitude is general)."""

Run = tuple[int, int]
"""(first slot, number of slots)."""


@dataclass(frozen=True)
class Segment:
    """The tokens of one request in a step: they follow `context`, whose KV is computed, and fill `slots`."""

    context: Sequence[Run]
    slots: Sequence[Run]
    count: int


@dataclass(frozen=True)
class Span:
    """The slots of `runs` are visible in full to the step's tokens `rows`. One run is read where it lies."""

    runs: tuple[Run, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """Tokens [first, first + count) of the step attend causally among themselves."""

    first: int
    count: int


@dataclass(frozen=True)
class Tail:
    """Slots that only token `row` sees, its own included: short, and computed together with other tails."""

    row: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class AttentionPlan:
    """The whole step: every (query, visible slot) pair is covered exactly once by spans, chunks and tails."""

    slots: list[int]
    spans: list[Span]
    chunks: list[Chunk]
    tails: list[Tail]


def plan_attention(segments: Sequence[Segment]) -> AttentionPlan:
    """Plan the attention of a step in which `segments` follow one another in the flat token batch."""
    firsts = _firsts(segments)
    tails: dict[int, list[int]] = {}
    chunks: list[Chunk] = []
    for first, segment in zip(firsts, segments, strict=True):
        if segment.count == 1:
            tails[first] = _listed(segment.slots, 1)
        else:
            chunks.append(Chunk(first, segment.count))
    shared: dict[tuple[int, ...], list[Run]] = {}
    for start, length, owners in _sweep([segment.context for segment in segments]):
        alone = firsts[owners[0]]
        if len(owners) == 1 and alone in tails and len(tails[alone]) + length <= TAIL_LIMIT:
            tails[alone].extend(range(start, start + length))
        else:
            shared.setdefault(owners, []).append((start, length))
    spans = []
    for owners, found in shared.items():
        rows = _rows(owners, firsts, segments)
        spans += [Span(runs, rows) for runs in _gathered(found, GATHER_BASE + GATHER_PER_ROW * len(rows))]
    slots = [slot for segment in segments for slot in _listed(segment.slots, segment.count)]
    return AttentionPlan(slots, spans, chunks, [Tail(row, tuple(own)) for row, own in tails.items()])


def _gathered(runs: list[Run], limit: int) -> list[tuple[Run, ...]]:
    """Runs of `limit` and more each by itself, the shorter ones together."""
    short = tuple(run for run in runs if run[1] < limit)
    return [(run,) for run in runs if run[1] >= limit] + ([short] if short else [])


def _firsts(segments: Sequence[Segment]) -> list[int]:
    firsts, position = [], 0
    for segment in segments:
        firsts.append(position)
        position += segment.count
    return firsts


def _listed(runs: Sequence[Run], count: int) -> list[int]:
    return [slot for start, length in runs for slot in range(start, start + length)][:count]


def _rows(owners: tuple[int, ...], firsts: list[int], segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(row for i in owners for row in range(firsts[i], firsts[i] + segments[i].count))


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
