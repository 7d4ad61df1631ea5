"""`/v1/fim/completions`: code between a prompt and a suffix, asked for as Mistral's clients do.

Upstreams get it as a completion with a `suffix`; the answer goes back with chat-style choices, a message or deltas,
which is what those clients read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.dialects.base import Body
from gateway.dialects.translate import Exchange, Failure
from gateway.errors import GatewayError

COMPLETIONS = "/v1/completions"
_DONE = b"data: [DONE]\n\n"


class Fim:
    """A `Translator`."""

    def exchange(self, body: Body) -> Exchange:
        for name in ("prompt", "suffix"):
            if body.get(name) is not None and not isinstance(body[name], str):
                raise GatewayError(f"{name} must be a string.", code="invalid_value", status=400, param=name)
        stream = body.get("stream") is True
        asked = {name: value for name, value in body.items() if value is not None}
        if stream:
            asked["stream_options"] = {"include_usage": True}
        return Exchange(asked, stream, FimAnswer(), target=COMPLETIONS)

    def error(self, failure: Failure) -> bytes:
        return _error(failure)


class FimAnswer:
    """An `AnswerWriter`."""

    def whole(self, answer: Mapping[str, Any]) -> bytes:
        return orjson.dumps({**answer, "object": "chat.completion", "choices": _choices(answer, "message")})

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        said = {**chunk, "object": "chat.completion.chunk", "choices": _choices(chunk, "delta")}
        return b"data: " + orjson.dumps(said) + b"\n\n"

    def end(self) -> bytes:
        return _DONE

    def fail(self, failure: Failure) -> bytes:
        return b"data: " + _error(failure) + b"\n\n"

    def heartbeat(self) -> bytes:
        return b": keep-alive\n\n"


def _choices(answer: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Completion choices with their text as a chat message, or as a part of one."""
    choices = answer.get("choices")
    return [
        {
            "index": choice.get("index", 0),
            key: {"role": "assistant", "content": choice.get("text") or ""},
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, Mapping)
    ]


def _error(failure: Failure) -> bytes:
    return GatewayError(failure.message, code=failure.code, status=failure.status, param=failure.param).payload()
