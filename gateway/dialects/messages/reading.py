"""What a chat message, or a delta of one, says: fed into a sequence of blocks. Odd types are taken for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.dialects.messages.sequence import BlockSequence, Kind

UNREADABLE = "null"
"""In place of arguments that can't be written: no JSON object, so the call counts as cut."""


def read(said: Mapping[str, Any], blocks: BlockSequence) -> None:
    """Reasoning first, then text, then calls, which is the order in which models write them."""
    thinking = _text(said.get("reasoning_content")) or _text(said.get("reasoning"))
    if thinking:
        blocks.say(Kind.THINKING, thinking)
    text = _text(said.get("content")) or _text(said.get("refusal"))
    if text:
        blocks.say(Kind.TEXT, text)
    calls = said.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            _read_call(call, blocks)


def _read_call(call: Mapping[str, Any], blocks: BlockSequence) -> None:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    index = call.get("index")
    blocks.call(
        index if type(index) is int else None,
        _string(call.get("id")),
        _string(function.get("name")),
        _arguments(function.get("arguments")),
    )


def _arguments(value: Any) -> str:
    """The text of a call's arguments; some servers send the object itself."""
    if not isinstance(value, Mapping):
        return _string(value)
    try:
        return json.dumps(value)
    except RecursionError:
        return UNREADABLE


def _text(value: Any) -> str:
    """A string as it is, or the texts of content parts."""
    if isinstance(value, list):
        return "".join(_string(part.get("text")) for part in value if isinstance(part, Mapping))
    return _string(value)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
