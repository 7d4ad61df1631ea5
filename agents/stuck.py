"""Whether a model goes round in circles: a pure look at the newest calls and what came of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agents.state import Message, State

SAME = 4
"""The same call with the same result, in a row."""
SAME_ERROR = 3
"""The same call that fails, in a row, however its error reads."""
ALTERNATION = 6
"""Two calls in turn, each with the same result as before."""

Deed = tuple[str, str]
"""A call (name and arguments) and its result."""


def circle(state: State) -> str | None:
    """What the model repeats, in words for it to read; None while it does not."""
    deeds = _deeds(state.messages[state.task_at + 1 :])
    if len(deeds) >= SAME and len(set(deeds[-SAME:])) == 1:
        return f"the same call gave the same result {SAME} times"
    calls = [call for call, _ in deeds[-SAME_ERROR:]]
    if state.errors >= SAME_ERROR and len(calls) == SAME_ERROR and len(set(calls)) == 1:
        return f"the same call failed {SAME_ERROR} times"
    newest = deeds[-ALTERNATION:]
    if len(newest) == ALTERNATION and len(set(newest)) == 2 and newest[::2] == [newest[0]] * 3 != newest[1::2]:
        return "two calls take turns and nothing changes"
    return None


def _deeds(messages: Sequence[Message]) -> list[Deed]:
    """Those since the agent last broke a circle (or a person spoke): a user message begins them anew."""
    deeds: list[Deed] = []
    called: dict[str, str] = {}
    for message in messages:
        if message["role"] == "user":
            deeds.clear()
        for call in message.get("tool_calls", ()):
            called[call["id"]] = json.dumps(call["function"])
        if message["role"] == "tool":
            deeds.append((called.get(message["tool_call_id"], ""), str(message["content"])))
    return deeds
