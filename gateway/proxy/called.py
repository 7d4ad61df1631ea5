"""Which tools a chat answer calls, read on the side from bytes that are relayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.proxy.events import EventCutter, as_object

_MARK = b'"tool_calls"'


def called_in_stream(tail: bytes) -> list[str]:
    """The names of the tools that the events of a stream (or its end) call, in order."""
    if _MARK not in tail:
        return []
    cutter = EventCutter()
    events = [*cutter.feed(tail), *cutter.end()]
    chunks = [as_object(event) for event in events if _MARK in event]
    return [name for chunk in chunks if chunk is not None for name in _names(chunk, "delta")]


def called_in_object(body: bytes) -> list[str]:
    """The names of the tools that a whole answer calls."""
    answer = as_object(body) if _MARK in body else None
    return list(_names(answer, "message")) if answer is not None else []


def _names(answer: Mapping[str, Any], part: str) -> Iterator[str]:
    for choice in _list(answer.get("choices")):
        said = choice.get(part) if isinstance(choice, Mapping) else None
        for call in _list(said.get("tool_calls")) if isinstance(said, Mapping) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            name = function.get("name") if isinstance(function, Mapping) else None
            if isinstance(name, str) and name:
                yield name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
