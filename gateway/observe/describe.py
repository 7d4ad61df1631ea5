"""Records as JSON for their tenant, and as flat fields for logs and a shared stream. Field names are stable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from gateway.observe.records import Outcome, Placed, RequestRecord

Json = dict[str, Any]


def describe(record: RequestRecord) -> Json:
    """All that is known. What is not there, or not yet, is null."""
    return {
        "id": record.id,
        "time": record.time,
        "lineage": record.lineage,
        "session": record.session,
        "model": record.model,
        "route": record.route,
        "turn": record.turn.value if record.turn else None,
        "prompt_tokens_estimated": record.prompt_estimate,
        "placement": _placement(record.placed) if record.placed else None,
        "outcome": asdict(record.outcome) if record.outcome else None,
        "break": _break(record),
        "gap": asdict(record.gap) if record.gap else None,
    }


def describe_session(records: Sequence[RequestRecord]) -> Json:
    """A session in one line; `records` are newest first and not empty."""
    newest, outcomes = records[0], [record.outcome for record in records if record.outcome]
    return {
        "id": newest.lineage,
        "named": newest.session is not None,
        "model": newest.model,
        "replica": newest.placed.replica if newest.placed else None,
        "requests": len(records),
        "breaks": sum(record.broken is not None for record in records),
        "lost_tokens_estimated": sum(record.lost_tokens for record in records),
        "gaps": sum(record.gap is not None for record in records),
        "prompt_tokens": _total(outcomes, "prompt_tokens"),
        "cached_tokens": _total(outcomes, "cached_tokens"),
        "since": records[-1].time,
        "last": newest.time,
    }


def stream_fields(record: RequestRecord) -> Mapping[str, str]:
    """For Redis: absent where not known."""
    return {name: str(value) for name, value in flat(record).items() if value is not None}


def flat(record: RequestRecord) -> Json:
    """Without contents and without nesting; null where not known."""
    broken, placed, outcome, gap = record.broken, record.placed, record.outcome, record.gap
    return {
        "time": datetime.fromtimestamp(record.time, UTC).isoformat(timespec="milliseconds"),
        "id": record.id,
        "tenant": record.tenant or None,
        "lineage": record.lineage or None,
        "route": record.route,
        "model": record.model or None,
        "turn": record.turn.value if record.turn else None,
        "replica": placed.replica if placed else None,
        "reason": placed.reason if placed else None,
        "attempts": placed.attempts if placed else None,
        "queued_ms": round(1000 * placed.queued_s, 3) if placed else None,
        "predicted_tokens": placed.predicted_tokens if placed else None,
        **(asdict(outcome) if outcome else {}),
        "break": broken.kind.value if broken else None,
        "break_at": f"{broken.path}+{broken.offset}" if broken else None,
        "lost_tokens": record.lost_tokens if broken else None,
        "gap": gap.cause.value if gap else None,
        "gap_tokens": gap.tokens if gap else None,
    }


def _placement(placed: Placed) -> Json:
    return {
        "replica": placed.replica,
        "reason": placed.reason,
        "predicted_tokens": placed.predicted_tokens,
        "attempts": placed.attempts,
        "queued_ms": round(1000 * placed.queued_s, 3),
        "alternatives": [asdict(alternative) for alternative in placed.alternatives],
    }


def _break(record: RequestRecord) -> Json | None:
    broken = record.broken
    if broken is None:
        return None
    return {
        "class": broken.kind.value,
        "part": broken.part.value,
        "index": broken.index,
        "role": broken.role or None,
        "path": broken.path,
        "offset": broken.offset,
        "lost_tokens_estimated": record.lost_tokens,
        "lost_ms_estimated": None if record.lost_ms is None else round(record.lost_ms, 1),
        "excerpt": asdict(broken.excerpt) if broken.excerpt else None,
    }


def _total(outcomes: Sequence[Outcome], name: str) -> int | None:
    """None where no upstream said."""
    known = [value for outcome in outcomes if (value := getattr(outcome, name)) is not None]
    return sum(known) if known else None
