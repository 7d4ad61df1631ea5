"""What a run may cost. Tokens and seconds count for the run with all its branches, turns for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import anyio

from agents.state import State, Turn

LATE = "the time is used up"


@dataclass
class Budget:
    turns: int = 50
    tokens: int | None = None
    """Computed prompt tokens and answers; all prompt tokens where the server does not say which were cached."""
    deadline: float | None = None
    """On the event loop's clock."""
    spent: int = 0

    @classmethod
    def of(cls, turns: int, tokens: int | None, seconds: float | None) -> Budget:
        """One that begins now."""
        return cls(turns, tokens, None if seconds is None else anyio.current_time() + seconds)

    def spend(self, turn: Turn) -> None:
        prompt = turn.prompt if turn.computed is None else turn.computed
        self.spent += (prompt or 0) + (turn.completion or 0)

    def exhausted(self, state: State) -> str | None:
        """Why no further turn may be asked, if so."""
        if state.turns_used >= self.turns:
            return f"{self.turns} turns were not enough"
        if self.tokens is not None and self.spent >= self.tokens:
            return f"{self.spent} tokens are used, {self.tokens} were allowed"
        if self.late():
            return LATE
        return None

    def late(self) -> bool:
        return self.deadline is not None and anyio.current_time() >= self.deadline

    def scope(self) -> anyio.CancelScope:
        """Ends what runs in it when the time is used up."""
        return anyio.CancelScope(deadline=math.inf if self.deadline is None else self.deadline)
