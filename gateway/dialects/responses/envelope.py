"""The Response object around an answer: what the request said, and how far the answer is.

The request's part is written once; a long answer's events and heartbeats repeat it, tools and all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gateway.dialects.responses.choice import Choice
from gateway.dialects.responses.fields import Fields, refused
from gateway.dialects.responses.tools import Toolbox

NESTING_ROOM = 100
"""Levels of nesting left to those who write the same values again, deeper in the stack."""


class Status(Enum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """The part of the Response object that changes."""

    status: Status
    output: list[dict[str, Any]]
    model: str = ""
    usage: dict[str, Any] | None = None
    incomplete_because: str | None = None
    error: Mapping[str, Any] | None = None


class Envelope:
    def __init__(self, response_id: str, created_at: int, echoed: dict[str, Any]) -> None:
        """GatewayError where the request nests too deeply to be written again."""
        self._model = str(echoed.get("model") or "")
        static = {"id": response_id, "object": "response", "created_at": created_at} | echoed
        self._static = _written({name: value for name, value in static.items() if name != "model"})

    def response(self, progress: Progress) -> str:
        """The whole object as JSON."""
        because = progress.incomplete_because
        changing = {
            "status": progress.status.value,
            "model": self._model or progress.model,
            "error": progress.error,
            "incomplete_details": {"reason": because} if because else None,
            "output": progress.output,
            "usage": progress.usage,
        }
        return f"{self._static[:-1]},{json.dumps(changing, separators=(',', ':'))[1:]}"


def echoes(body: Fields, tools: Toolbox, choice: Choice) -> dict[str, Any]:
    """What the Response object repeats of the request, in the types that clients' libraries expect."""
    parallel = body.flag("parallel_tool_calls")
    reasoning, text = body.mapping("reasoning"), body.mapping("text")
    return {
        "model": body.text("model"),
        "background": False,
        "instructions": body.text("instructions"),
        "max_output_tokens": body.integer("max_output_tokens"),
        "metadata": _metadata(body),
        "parallel_tool_calls": True if parallel is None else parallel,
        "previous_response_id": None,
        "prompt_cache_key": body.text("prompt_cache_key"),
        "reasoning": {name: reasoning.text(name) if reasoning else None for name in ("effort", "summary")},
        "store": False,
        "temperature": body.number("temperature"),
        "text": {"format": (text and text.raw("format")) or {"type": "text"}},
        "tool_choice": choice.echoed,
        "tools": tools.echoed,
        "top_logprobs": body.integer("top_logprobs"),
        "top_p": body.number("top_p"),
        "truncation": "disabled",
        "user": body.text("user"),
    }


def _metadata(body: Fields) -> dict[str, str]:
    metadata = body.mapping("metadata")
    return {name: metadata.needed_text(name) for name in metadata.values} if metadata else {}


def _written(values: Mapping[str, Any]) -> str:
    """JSON, or a refusal where writing it again deeper in the stack could fail."""
    nested: Any = values
    for _ in range(NESTING_ROOM):
        nested = [nested]
    try:
        return json.dumps(nested, separators=(",", ":"))[NESTING_ROOM:-NESTING_ROOM]
    except RecursionError:
        raise refused(None, "The request's tools or schemas are nested too deeply") from None
