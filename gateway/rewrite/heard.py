"""An assistant message out of the bytes of its answer, whole or streamed, for the rule that remembers it."""

from __future__ import annotations

from typing import Any

from gateway.dialects.base import Json, as_list
from gateway.proxy.events import EventCutter, as_object
from gateway.rewrite.reasoning import FIELDS

MAX_BYTES = 4 * 2**20


class Listener:
    """Fed with what the upstream sends of one chat answer; of several choices it hears the first."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_BYTES:
            self._chunks.clear()
        else:
            self._chunks.append(data)

    def message(self, is_stream: bool) -> dict[str, Json] | None:
        """The message as a client sends it again; None if there was none."""
        if self._size > MAX_BYTES:
            return None
        data = b"".join(self._chunks)
        if is_stream:
            return _streamed(data)
        choice = _first_choice(as_object(data))
        message = choice.get("message")
        return {**message, "role": "assistant"} if isinstance(message, dict) else None


def _streamed(data: bytes) -> dict[str, Json] | None:
    cutter = EventCutter()
    texts: dict[str, list[str]] = {"content": [], **{field: [] for field in FIELDS}}
    calls: dict[int, tuple[list[str], list[str]]] = {}
    for event in [*cutter.feed(data), *cutter.end()]:
        delta = _first_choice(as_object(event)).get("delta")
        if not isinstance(delta, dict):
            continue
        for field, pieces in texts.items():
            pieces += [delta[field]] if isinstance(delta.get(field), str) else []
        for call in as_list(delta.get("tool_calls")):
            _add_call(call, calls)
    said: dict[str, Json] = {name: "".join(pieces) for name, pieces in texts.items() if pieces}
    if calls:
        said["tool_calls"] = [
            {"type": "function", "function": {"name": "".join(name), "arguments": "".join(arguments)}}
            for _, (name, arguments) in sorted(calls.items())
        ]
    return {"role": "assistant", **said} if said else None


def _add_call(call: Json, calls: dict[int, tuple[list[str], list[str]]]) -> None:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        return
    index = call.get("index")
    parts = calls.setdefault(index if isinstance(index, int) else 0, ([], []))
    for part, value in zip(parts, (call["function"].get("name"), call["function"].get("arguments")), strict=True):
        part += [value] if isinstance(value, str) else []


def _first_choice(answer: dict[str, Any] | None) -> dict[str, Any]:
    choices = as_list(answer.get("choices")) if answer else []
    return next((each for each in choices if isinstance(each, dict) and each.get("index", 0) == 0), {})
