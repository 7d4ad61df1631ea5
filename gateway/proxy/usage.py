"""Usage, read on the side from bytes that are relayed untouched.

Only the end of an answer is kept: the last event of a stream, and the last field that servers write in a JSON
body, is the usage. Chunks are joined before they are looked at, so where TCP cut them does not matter.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from gateway.proxy.called import called_in_object, called_in_stream
from gateway.rewrite.rewriter import Heard

STREAM_TAIL_BYTES = 64 * 1024
JSON_LIMIT_BYTES = 8 * 2**20
MAX_NAMING = 32
_FINISH = b'"finish_reason"'
_REASON = re.compile(_FINISH + rb'\s*:\s*"([A-Za-z0-9_-]{1,40})"')


@dataclass(frozen=True, slots=True)
class Usage:
    """None is "the upstream did not say", which is not 0."""

    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None = None

    @property
    def computed_tokens(self) -> int | None:
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        return max(0, self.prompt_tokens - self.cached_tokens)

    @property
    def total(self) -> int:
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


class UsageTap:
    """Fed with every chunk; asked once, at the end."""

    def __init__(self, content_type: str, heard: Heard | None = None) -> None:
        self._heard = heard
        self.is_stream = content_type.startswith("text/event-stream")
        self._limit = STREAM_TAIL_BYTES if self.is_stream else JSON_LIMIT_BYTES
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._cut = False
        self._naming: list[bytes] = []
        """Of a stream, the chunks in which calls begin: a call's arguments may be longer than what is kept."""

    def feed(self, chunk: bytes) -> None:
        if self._heard is not None:
            self._heard.feed(chunk)
        if self.is_stream and b'"tool_calls"' in chunk and b'"name"' in chunk and len(self._naming) < MAX_NAMING:
            self._naming.append(chunk)
        self._chunks.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._chunks[0]) > self._limit:
            self._held -= len(self._chunks.popleft())
            self._cut = True

    def usage(self) -> Usage | None:
        tail = b"".join(self._chunks)
        if self.is_stream:
            return _last_in_stream(tail)
        return None if self._cut else _in_object(tail)

    def finish(self) -> str | None:
        """Why the (last) choice ended, in the upstream's word. Inside of strings quotes are escaped, so that what was
        said can't be taken for the field."""
        tail = b"".join(self._chunks)
        at = len(tail)
        while (at := tail.rfind(_FINISH, 0, at)) >= 0:
            if found := _REASON.match(tail, at):
                return found[1].decode()
        return None

    def called(self) -> list[str]:
        """The tools that the answer calls, in order."""
        if not self.is_stream:
            return called_in_object(b"".join(self._chunks))
        return called_in_stream(b"\n\n".join(self._naming) if self._cut else b"".join(self._chunks))


def _last_in_stream(tail: bytes) -> Usage | None:
    for line in reversed(tail.splitlines()):
        if line.startswith(b"data:") and b'"usage"' in line:
            usage = _in_object(line[5:])
            if usage is not None:
                return usage
    return None


def _in_object(raw: bytes) -> Usage | None:
    try:
        body = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(_count(usage.get("prompt_tokens")), _count(cached), _count(usage.get("completion_tokens")))


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
