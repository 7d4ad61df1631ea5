"""The canonical form: one byte string for all spellings of a message that no model can tell apart.

Equal are, and nothing else is:
  - with and without `cache_control` on a message, a content part or a tool;
  - whatever `id` a message or a tool call has and whichever `tool_call_id` a result names. Nearly all
    templates print none of them, and order pairs calls with results;
  - the key order and whitespace of a tool's schema and of a tool call's arguments;
  - a string content and the same string as the only text part;
  - a field of a message that is null and one that is missing.
The form serves look-ups only: bodies are relayed as they came. Two prompts wrongly held equal would cost one
mispredicted cache hit, never a wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import orjson

from gateway.dialects.base import Json

_write_any = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode
_MARKERS = frozenset({"cache_control"})
_UNSEEN_IN_MESSAGE = _MARKERS | {"id", "tool_call_id"}
_UNSEEN_IN_CALL = frozenset({"id", "index"})
_TEXT_PART = frozenset({"type", "text"})


def canonical_message(message: Json) -> bytes:
    """The canonical bytes of one message; of any other JSON value, its sorted compact JSON."""
    if not isinstance(message, dict):
        return encode(message)
    seen = {key: value for key, value in message.items() if value is not None and key not in _UNSEEN_IN_MESSAGE}
    content = seen.get("content")
    if isinstance(content, list):
        seen["content"] = _canonical_content(content)
    calls = seen.get("tool_calls")
    if isinstance(calls, list):
        seen["tool_calls"] = [_canonical_call(call) for call in calls]
    return encode(seen)


def canonical_tool(tool: Json) -> bytes:
    """The canonical bytes of one tool definition. Markers count only where clients put them, not in schemas."""
    return encode(_without_markers(tool))


def encode(value: Json) -> bytes:
    """Compact JSON with sorted keys. What UTF-8 can't hold (lone surrogates) or 64 bits can't is written in ASCII, by
    a slower way; the value alone decides which."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _write_any(value).encode("ascii")


def encode_as_spelled(tools: Sequence[Json]) -> bytes:
    """The same of a tool block, with keys in the order in which they came."""
    seen = [_without_markers(tool) for tool in tools]
    try:
        return orjson.dumps(seen)
    except TypeError:
        return json.dumps(seen).encode("ascii")


def _canonical_content(parts: list[Json]) -> Json:
    seen = [_without(part, _MARKERS) for part in parts]
    if len(seen) == 1 and _is_plain_text(seen[0]):
        return seen[0]["text"]
    return seen


def _is_plain_text(part: Json) -> bool:
    if not isinstance(part, dict) or part.keys() != _TEXT_PART:
        return False
    return bool(part["type"] == "text") and isinstance(part["text"], str)


def _canonical_call(call: Json) -> Json:
    seen = _without(call, _UNSEEN_IN_CALL)
    if not isinstance(seen, dict):
        return seen
    function = seen.get("function")
    if isinstance(function, dict) and isinstance(function.get("arguments"), str):
        function = function | {"arguments": _canonical_arguments(function["arguments"])}
        return seen | {"function": function}
    return seen


def _canonical_arguments(text: str) -> Json:
    """Arguments that are a JSON object become that object; anything else stays the text it is."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text


def _without_markers(tool: Json) -> Json:
    seen = _without(tool, _MARKERS)
    if isinstance(seen, dict) and isinstance(seen.get("function"), dict):
        seen = seen | {"function": _without(seen["function"], _MARKERS)}
    return seen


def _without(value: Json, keys: frozenset[str]) -> Json:
    if isinstance(value, dict) and not keys.isdisjoint(value):
        return {key: item for key, item in value.items() if key not in keys}
    return value
