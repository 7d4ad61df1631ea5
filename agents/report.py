"""How a run ended: what is shown to people and printed as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.session import Session
from agents.state import State, Status, Turn
from agents.view import branch_of


@dataclass
class Report:
    status: Status
    reason: str
    session: str = ""
    winner: str | None = None
    """The branch whose changes were kept."""
    diff: str = ""
    tests: str = ""
    """The output of the deciding test run."""
    turns: dict[str, list[Turn]] = field(default_factory=dict)
    """By branch, each turn once: shared turns are the parent's."""
    branches: dict[str, str] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, int | None]:
        every = [turn for turns in self.turns.values() for turn in turns]
        return {name: _sum(getattr(turn, name) for turn in every) for name in ("prompt", "cached", "computed")}

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """By branch: prompt tokens of its first turn that were there already, and those that it computed in all.
        Branches whose server tells too little are left out.
        """
        found = {}
        for name in self.branches:
            turns = self.turns.get(name) or []
            computed = _sum(turn.computed for turn in turns)
            if turns and turns[0].cached is not None and computed is not None:
                found[name] = (turns[0].cached, computed)
        return found

    def as_json(self) -> dict[str, Any]:
        turns = [{"branch": name, **turn.as_json()} for name, own in self.turns.items() for turn in own]
        return {
            "status": self.status.value,
            "reason": self.reason,
            "exit_code": self.status.exit_code,
            "session": self.session,
            "winner": self.winner,
            "branches": self.branches,
            "shares": {name: {"shared": ours, "private": own} for name, (ours, own) in self.shares.items()},
            "turns": turns,
            "totals": self.totals,
            "diff": self.diff,
            "tests": self.tests,
        }


def report(session: Session, children: Iterable[Session] = ()) -> Report:
    """The report on a session as its own state has it; the caller adds what branches and worktrees know."""
    state, states = session.state, [session.state, *(child.state for child in children)]
    return Report(
        status=state.status,
        reason=state.reason,
        session=state.id,
        tests=_tests(state),
        turns={branch_of(s.id): [turn for turn in s.turns if not turn.inherited] for s in states},
        branches={branch_of(s.id): s.status.value for s in states[1:]},
    )


def _tests(state: State) -> str:
    return str(state.verdict["text"]) if state.verdict else ""


def _sum(values: Iterable[int | None]) -> int | None:
    """None when any part is unknown: a total is never an estimate."""
    every = list(values)
    return None if None in every else sum(value for value in every if value is not None)
