"""What was said before the session was opened here, as blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agents.cut import cut
from agents.state import State
from agents.tui.blocks import Block, Notice, Said
from agents.tui.call import Call
from agents.tui.prose import Prose, Thought

_MOST = 200
"""Messages that are shown of a long session."""
_LONGEST = 4000


def replay(state: State) -> list[Block]:
    """The newest messages; the task stands for the first one, which tells the model of the repository as well."""
    messages = [message for message in state.messages if message["role"] != "system"]
    if not messages:
        return []
    told = [{"role": "user", "content": state.opened.get("task") or messages[0]["content"]}, *messages[1:]]
    shown = told[-_MOST:]
    hidden = len(told) - len(shown)
    before: list[Block] = [Notice(f"… {hidden} messages before these")] if hidden else []
    return [*before, *_blocks(shown)]


def _blocks(messages: list[dict[str, Any]]) -> Iterator[Block]:
    calls: dict[str, Call] = {}
    for message in messages:
        text = str(message.get("content") or "")
        match message["role"]:
            case "user":
                yield Said(cut(text, _LONGEST))
            case "tool":
                if call := calls.pop(str(message.get("tool_call_id")), None):
                    call.end(text, False, None)
            case _:
                yield from _assistant(message, text, calls)
    for call in calls.values():
        call.drop()


def _assistant(message: dict[str, Any], text: str, calls: dict[str, Call]) -> Iterator[Block]:
    if thought := message.get("reasoning_content"):
        block = Thought()
        block.add(str(thought))
        block.end()
        yield block
    if text.strip():
        prose = Prose()
        prose.add(text.strip("\n"))
        yield prose
    for wire in message.get("tool_calls") or ():
        call = Call(str(wire["function"]["name"]))
        call.begin(_arguments(wire["function"]["arguments"]))
        calls[str(wire["id"])] = call
        yield call


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": text}
