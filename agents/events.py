"""The vocabulary of a session file: one JSON object per line, each an event that has happened or is about to.

Owns the names of the events, their version and their encoding. What they add up to is `agents.state`'s job;
where they are kept is `agents.session`'s.

    open       a new session: task, model, tools, first messages (everything frozen for its life)
    fork       a branch: parent session and how many of its events it shares
    message    a user message, from a person or from the agent
    ask        a model turn is about to be requested
    reply      the model's turn, exactly as it will be sent back
    fail       the model turn did not arrive
    approve    what a person said to a call that needs a word
    call       a tool is about to run
    result     what the tool said (already cut)
    verify     the tests, run by the agent itself
    compact    the conversation so far, replaced by a summary of it
    model      another model from here on
    status     where the session came to rest
    resume     somebody picked it up again
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

VERSION = 1


class Kind(StrEnum):
    OPEN = "open"
    FORK = "fork"
    MESSAGE = "message"
    ASK = "ask"
    REPLY = "reply"
    FAIL = "fail"
    APPROVE = "approve"
    CALL = "call"
    RESULT = "result"
    VERIFY = "verify"
    COMPACT = "compact"
    MODEL = "model"
    STATUS = "status"
    RESUME = "resume"


@dataclass(frozen=True)
class Event:
    kind: Kind
    data: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    """Seconds since the epoch; for people, never for decisions."""


class BadSession(Exception):
    """A session file that cannot be used; the message is one line and says what to do."""


def encode(event: Event) -> bytes:
    """One line, ASCII only, so that any text a model produced (lone surrogates too) survives."""
    line = json.dumps({"type": event.kind.value, "at": round(event.at, 3), **event.data}, separators=(",", ":"))
    return line.encode() + b"\n"


def decode(line: bytes) -> Event:
    fields = json.loads(line)
    kind, at = Kind(fields.pop("type")), fields.pop("at", 0.0)
    if fields.get("version", VERSION) != VERSION:
        raise BadSession(f"session file version {fields['version']} is not {VERSION}: use the sapwood that wrote it")
    return Event(kind, fields, at)


def decode_all(raw: bytes, name: str) -> Iterator[tuple[Event, int]]:
    """Yield each event with the offset after it. A torn last line is left out; any other bad line is an
    error.
    """
    start = 0
    for number, line in enumerate(raw.splitlines(keepends=True), 1):
        end = start + len(line)
        if not line.endswith(b"\n"):
            return
        try:
            yield decode(line), end
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadSession(f"{name}, line {number}: not a session event ({error})") from error
        start = end
