"""What turns add up to, and what of a branch is its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.state import Turn


@dataclass(frozen=True)
class Totals:
    """Tokens by the server's own count; None when any turn's is unknown: a total is never an estimate."""

    turns: int
    prompt: int | None
    cached: int | None
    computed: int | None
    completion: int | None
    seconds: float

    @property
    def cached_share(self) -> float | None:
        return self.cached / self.prompt if self.prompt and self.cached is not None else None


@dataclass(frozen=True)
class Shares:
    """Prompt tokens of a branch's first turn that were in the cache, and those that were computed for it alone."""

    shared: int | None
    private: int | None


def totals(turns: Sequence[Turn]) -> Totals:
    names = ("prompt", "cached", "computed", "completion")
    counts = {name: _sum(getattr(turn, name) for turn in turns) for name in names}
    return Totals(turns=len(turns), **counts, seconds=sum(turn.seconds for turn in turns))


def own(turns: Iterable[Turn]) -> list[Turn]:
    """A branch's turns without those that its parent ran."""
    return [turn for turn in turns if not turn.inherited]


def shares(turns: Iterable[Turn]) -> Shares:
    mine = own(turns)
    if not mine or mine[0].cached is None:
        return Shares(None, None)
    return Shares(mine[0].cached, totals(mine).computed)


def _sum(values: Iterable[int | None]) -> int | None:
    every = list(values)
    return None if None in every else sum(value for value in every if value is not None)
