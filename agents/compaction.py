"""When a conversation must be replaced by a summary of it, because the model's context is nearly full.

The summary is asked for behind the whole history, with the same system prompt and tools: the engine computes one
message and the answer, nothing else. The conversation then goes on as a branch of its own beginning.
"""

from __future__ import annotations

from agents.state import State

FULL = 0.8
"""Part of the context after which the next turn might not fit."""
LEAST_GAINED = 4
"""Messages since the beginning or the last summary, without which a summary gains nothing."""


def due(state: State) -> bool:
    limit: int | None = state.opened.get("context")
    return limit is not None and used(state) >= FULL * limit


def possible(state: State) -> bool:
    begun = state.kept or len(state.opened["messages"])
    return len(state.messages) - begun >= LEAST_GAINED


def used(state: State) -> int:
    """Tokens of the conversation up to the newest turn, as the server counted them; 0 where it does not."""
    if not state.turns or (state.kept and len(state.messages) == state.kept):
        return 0
    turn = state.turns[-1]
    return (turn.prompt or 0) + (turn.completion or 0)
