"""From the deltas of a chat-completions stream to one assistant turn. Pure: no sockets, no clocks.

Servers differ in how they stream tool calls (no index, no id, two calls on one index, the id on each delta,
arguments as an object, usage on every chunk, an empty finish reason, "stop" with calls). All of these are
one turn here. What is never done is to repair text: arguments stay as received, because they are sent back
byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from agents.state import Call


class Part(StrEnum):
    """Of a turn, as it streams."""

    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"
    """A tool's name, when a call of it begins."""
    ARGUMENTS = "arguments"


class Delta(NamedTuple):
    part: Part
    text: str


@dataclass
class _Piece:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass
class Accumulator:
    """Feed it each chunk; `message()` is the turn so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    _calls: list[_Piece] = field(default_factory=list)
    _by_index: dict[int, _Piece] = field(default_factory=dict)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Take one chunk; what it carried that the model generated."""
        if isinstance(chunk.get("usage"), Mapping):
            self.usage = chunk["usage"]
        return [delta for choice in chunk.get("choices") or () for delta in self._choice(choice)]

    def message(self, turn: int) -> dict[str, Any]:
        """The assistant message as it will be sent back; a call without an id gets one made of `turn` and
        its place.
        """
        content, reasoning, calls = "".join(self.content), "".join(self.reasoning), self.calls(turn)
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else "")}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = [_wire(call) for call in calls]
        return message

    def calls(self, turn: int) -> list[Call]:
        return [
            Call(piece.id or f"call_{turn}_{place}", piece.name, "".join(piece.arguments))
            for place, piece in enumerate(self._calls)
        ]

    def _choice(self, choice: Mapping[str, Any]) -> list[Delta]:
        if choice.get("index") not in (0, None):
            return []
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta") or choice.get("message") or {}
        new = [Delta(Part.TEXT, text) for text in _extend(self.content, delta.get("content"))]
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        new += [Delta(Part.REASONING, text) for text in _extend(self.reasoning, thought)]
        return new + [found for part in delta.get("tool_calls") or () for found in self._part(part)]

    def _part(self, part: Mapping[str, Any]) -> list[Delta]:
        function = part.get("function") or {}
        name = str(function.get("name") or "")
        piece = self._piece(str(part.get("id") or ""), part.get("index"), bool(name))
        begun = [Delta(Part.CALL, name)] if name and not piece.name else []
        piece.name = piece.name or name
        return begun + [Delta(Part.ARGUMENTS, text) for text in _extend(piece.arguments, function.get("arguments"))]

    def _piece(self, identity: str, index: int | None, named: bool) -> _Piece:
        """The call a delta belongs to: by id, then by index, then the newest; else a new one."""
        known = next((piece for piece in self._calls if identity and piece.id == identity), None)
        if known is None and index is not None:
            known = self._by_index.get(index)
        elif known is None and not identity and not named and self._calls:
            known = self._calls[-1]
        if known is not None and identity and known.id not in ("", identity):
            known = None
        if known is None:
            known = _Piece()
            self._calls.append(known)
        known.id = known.id or identity
        if index is not None:
            self._by_index[index] = known
        return known


def cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """Prompt tokens the server did not compute, or None where it does not say."""
    details = usage.get("prompt_tokens_details")
    return count(details, "cached_tokens") if isinstance(details, Mapping) else None


def count(usage: Mapping[str, Any], name: str) -> int | None:
    """A number of tokens, or None where there is none or it is no number."""
    value = usage.get(name)
    return value if isinstance(value, int) else None


def _extend(pieces: list[str], value: Any) -> list[str]:
    """The new pieces of text in `value`, which now are the last ones of `pieces`."""
    new: list[str] = []
    if isinstance(value, str) and value:
        new = [value]
    elif isinstance(value, Mapping):
        new = [json.dumps(value)]
    elif isinstance(value, list):
        new = [part.get("text") or "" for part in value if isinstance(part, Mapping)]
    pieces.extend(new)
    return new


def _wire(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
