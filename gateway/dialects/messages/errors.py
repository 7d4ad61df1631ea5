"""Errors in Anthropic's shape: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

Clients decide by the status and by the type; a prompt that is too long they know by its text alone.
"""

from __future__ import annotations

import json
import re

from gateway.dialects.translate import Failure

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_NUMBER = r"(?:at least )?(\d[\d,]*)"
_LIMIT = re.compile(rf"context (?:length|size|window)(?: is only| is| of)? \(?{_NUMBER}")
_PROMPT = re.compile(
    rf"{_NUMBER} (?:tokens )?(?:in|from) the (?:input )?(?:messages|prompt)"
    rf"|{_NUMBER} input tokens|(?:resulted in|input|request) \(?{_NUMBER}"
)
_ANSWER = re.compile(rf"{_NUMBER} (?:tokens )?(?:in|for) the completion|{_NUMBER} output tokens|too large: {_NUMBER}")
"""How engines word it when prompt, or prompt and answer, are longer than the context."""


def error_body(failure: Failure) -> bytes:
    """The body of an answer, or the data of an `error` event. The id of the request is in the answer's headers."""
    error = {"type": error_type(failure.status), "message": message_of(failure)}
    return json.dumps({"type": "error", "error": error, "request_id": None}).encode()


def error_type(status: int) -> str:
    return _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def message_of(failure: Failure) -> str:
    """The failure's own text, but for the two that clients read numbers out of."""
    if failure.code != "context_length_exceeded":
        return failure.message
    limit, prompt, answer = (_number(pattern, failure.message) for pattern in (_LIMIT, _PROMPT, _ANSWER))
    if limit is None or prompt is None:
        return f"prompt is too long: {failure.message}"
    if prompt <= limit and answer is not None:
        sums = f"{prompt} + {answer} > {limit}"
        return f"input length and `max_tokens` exceed context limit: {sums}, decrease input length or `max_tokens`"
    return f"prompt is too long: {prompt} tokens > {limit} maximum"


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    number = next((group for group in found.groups() if group), None) if found else None
    return int(number[:20].replace(",", "")) if number else None
