"""The gap between the tokens that a replica should have held and those that it says it reused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIN_TOKENS = 128
"""Caches hold whole pages, the largest of common engines 128 tokens; less than that is no loss."""
TOLERATED_SHARE = 0.1
"""Part of what is expected comes from bytes, not from counting."""


class GapCause(StrEnum):
    """Stable names, also of a metric's label."""

    REPLICA_RESTARTED = "replica_restarted"
    NEVER_HELD = "never_held"
    """Another replica computed this conversation before."""
    SCHEMA_KEY_ORDER = "schema_key_order"
    """The same tools came with their keys in another order, as this engine's template prints them."""
    NO_CACHE = "no_cache"
    """The replica has not reported one cached token yet."""
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class Gap:
    cause: GapCause
    tokens: int
    """Expected and computed again."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where a prompt was computed, and how its tools were spelled there."""

    replica: str
    epoch: str
    spelling: int


def find_gap(*, expected: int, cached: int, before: Home | None, now: Home, reports_hits: bool) -> Gap | None:
    """`before`: where the request that this one goes on from was computed, None if that is not known here.

    `reports_hits`: the replica has reported cached tokens at some time.
    """
    missing = expected - cached
    if missing <= max(MIN_TOKENS, expected * TOLERATED_SHARE):
        return None
    return Gap(_cause(before, now, reports_hits), missing)


def _cause(before: Home | None, now: Home, reports_hits: bool) -> GapCause:
    if before is not None and before.replica != now.replica:
        return GapCause.NEVER_HELD
    if before is not None and before.epoch != now.epoch:
        return GapCause.REPLICA_RESTARTED
    if not reports_hits:
        return GapCause.NO_CACHE
    if before is not None and before.spelling != now.spelling:
        return GapCause.SCHEMA_KEY_ORDER
    return GapCause.EVICTED
