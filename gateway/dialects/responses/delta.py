"""What one chunk or answer of a chat upstream says, whatever it leaves out or gets wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STOPPED_EARLY = {"length": "max_output_tokens", "content_filter": "content_filter"}

IMPOSSIBLE = -9999.0
"""The log-probability of what has none, as JSON knows no infinity."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    index: int | None
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Piece:
    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    calls: tuple[CallPiece, ...] = ()
    logprobs: Sequence[dict[str, Any]] = ()
    stopped_early: str | None = None
    """Why the answer is incomplete, in the Responses API's words."""


def read_piece(answer: Mapping[str, Any], key: str) -> Piece | None:
    """The first choice's `delta` or `message`. None where there is no such choice."""
    choice = _first_choice(answer)
    if choice is None:
        return None
    said = _mapping(choice.get(key))
    return Piece(
        reasoning=_text(said.get("reasoning_content")) or _text(said.get("reasoning")),
        text=_text(said.get("content")),
        refusal=_text(said.get("refusal")),
        calls=tuple(_calls(said.get("tool_calls"), numbered=key == "message")),
        logprobs=list(_logprobs(_mapping(choice.get("logprobs")).get("content"))),
        stopped_early=STOPPED_EARLY.get(_text(choice.get("finish_reason"))),
    )


def read_usage(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The upstream's own counts; None where it gave none, as nothing is invented."""
    usage = _mapping(answer.get("usage"))
    if not usage:
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = _count(_mapping(usage.get("prompt_tokens_details")), "cached_tokens")
    reasoning = _count(_mapping(usage.get("completion_tokens_details")), "reasoning_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": _count(usage, "total_tokens") or prompt + completion,
    }


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return choice
    return None


def _calls(value: Any, numbered: bool) -> Iterator[CallPiece]:
    """`numbered`: each entry is a call of its own, whatever its index says."""
    for at, call in enumerate(value if isinstance(value, list) else ()):
        if isinstance(call, dict):
            function, index = _mapping(call.get("function")), call.get("index")
            yield CallPiece(
                index=at if numbered else index if type(index) is int else None,
                call_id=_text(call.get("id")),
                name=_text(function.get("name")),
                arguments=_arguments(function.get("arguments")),
            )


def _arguments(value: Any) -> str:
    """Some servers send an object where its JSON text belongs."""
    if not isinstance(value, dict):
        return _text(value)
    try:
        return json.dumps(value)
    except RecursionError:
        return ""


def _logprobs(value: Any) -> Iterator[dict[str, Any]]:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            others = entry.get("top_logprobs")
            alternatives = [_logprob(other) for other in (others if isinstance(others, list) else ()) if other]
            yield _logprob(entry) | {"top_logprobs": alternatives}


def _logprob(value: Any) -> dict[str, Any]:
    entry = _mapping(value)
    number, raw = entry.get("logprob"), entry.get("bytes")
    return {
        "token": _text(entry.get("token")),
        "logprob": number if isinstance(number, float) and math.isfinite(number) else IMPOSSIBLE,
        "bytes": [byte for byte in raw if type(byte) is int] if isinstance(raw, list) else [],
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int else 0


def _text(value: Any) -> str:
    """A string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
