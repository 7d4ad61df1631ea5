"""What the replicas hold of a prompt, by the bindings that were found for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.affinity.base import Found, Level, LookupResult, Match


class Running(Protocol):
    """A replica, or a view of it."""

    @property
    def url(self) -> str: ...

    @property
    def epoch(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Holding:
    level: Level
    tokens: int
    """Of the prompt, if nothing was evicted since."""
    age_s: float


def current(matches: Sequence[Match], replicas: Sequence[Running]) -> list[Match]:
    """Those whose replica is there and still runs under the binding's epoch."""
    epochs = {replica.url: replica.epoch for replica in replicas}
    return [match for match in matches if epochs.get(match.binding.replica) == match.binding.epoch]


def holdings(tokens: int, matches: Sequence[Match], now_ms: int) -> Mapping[str, Holding]:
    """By URL, each replica's strongest. `matches` are current and strongest first; `tokens` is the prompt's length."""
    held: dict[str, Holding] = {}
    for match in matches:
        if match.binding.replica not in held:
            age_s = max(0, now_ms - match.binding.used_ms) / 1000
            held[match.binding.replica] = Holding(match.level, held_tokens(tokens, match), age_s)
    return held


def held_tokens(tokens: int, match: Match) -> int:
    """Of a history that was changed nobody knows how many; and one token of a prompt is always computed."""
    return 0 if match.level is Level.SESSION else max(0, min(match.binding.tokens, tokens - 1))


def resolve(found: Found, replicas: Sequence[Running]) -> tuple[Match | None, LookupResult]:
    """The strongest current binding, and how the look-up ended."""
    there = current(found.matches, replicas)
    if there:
        return there[0], LookupResult.HIT if found.shared else LookupResult.FALLBACK
    if not found.shared:
        return None, LookupResult.FALLBACK
    urls = {replica.url for replica in replicas}
    stale = any(match.binding.replica in urls for match in found.matches)
    return None, LookupResult.STALE_EPOCH if stale else LookupResult.MISS
