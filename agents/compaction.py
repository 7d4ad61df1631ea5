"""When a conversation must be replaced by a summary of it, because the model's context is nearly full.

The summary is asked for behind the whole history, with the same system prompt and tools: the engine computes one
message and the answer, nothing else. The conversation then goes on as a branch of its own beginning.
"""

from __future__ import annotations

from agents.state import State

FULL = 0.8
"""Part of the context after which the next turn might not fit."""
LEAST_GAINED = 6
"""Messages since the last summary, without which another one gains nothing: then the server says when it is full."""


def due(state: State) -> bool:
    limit: int | None = state.opened.get("context")
    if limit is None or used(state) < FULL * limit:
        return False
    return not state.kept or len(state.messages) - state.kept >= LEAST_GAINED


def used(state: State) -> int:
    """Tokens of the conversation up to the newest turn, as the server counted them; 0 where it does not."""
    if not state.turns:
        return 0
    turn = state.turns[-1]
    return (turn.prompt or 0) + (turn.completion or 0)
