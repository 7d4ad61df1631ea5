"""The vocabulary of rewrite rules.

A rule is a pure function from a chat request to the same request or a changed one. Applied to its own result it
changes nothing. What it can't read it leaves as it is: what a field may hold is the upstream's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.dialects.base import Body, Json, as_list
from gateway.dialects.chat import SHARED_ROLES


class RuleName(StrEnum):
    """In the order in which rules are applied, whatever the order in which they are configured."""

    DROP_BILLING_HEADER = "drop_billing_header"
    FREEZE_TIMESTAMPS = "freeze_timestamps"
    KEEP_REASONING = "keep_reasoning"
    """Before lines are moved into messages: it knows turns by the messages as the client writes them."""
    MOVE_VOLATILE_LINES = "move_volatile_lines"
    SORT_TOOLS = "sort_tools"
    SORT_SCHEMA_KEYS = "sort_schema_keys"
    FREEZE_TOOLS = "freeze_tools"
    """After the sorting, so that it compares tools in one spelling."""


class Effect(StrEnum):
    LOSSLESS = "lossless"
    """All that the client sent is still there, perhaps in another order."""
    LOSSY = "lossy"


EFFECTS: Mapping[RuleName, Effect] = {
    RuleName.DROP_BILLING_HEADER: Effect.LOSSY,
    RuleName.FREEZE_TIMESTAMPS: Effect.LOSSY,
    RuleName.KEEP_REASONING: Effect.LOSSLESS,
    RuleName.MOVE_VOLATILE_LINES: Effect.LOSSLESS,
    RuleName.SORT_TOOLS: Effect.LOSSLESS,
    RuleName.SORT_SCHEMA_KEYS: Effect.LOSSLESS,
    RuleName.FREEZE_TOOLS: Effect.LOSSY,
}


@dataclass(frozen=True, slots=True)
class Edit:
    """`changed` counts the bytes that were dropped, added, or put elsewhere; 0 is "the body is the one given"."""

    body: Body
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """What one rule did to one request."""

    rule: RuleName
    changed: int


def written(value: Json) -> bytes:
    """Compact JSON in the value's own key order."""
    return json.dumps(value, separators=(",", ":"), check_circular=False).encode("ascii")


def moved_bytes(before: Sequence[Json], after: Sequence[Json]) -> int:
    """The size of those entries of `after` that `before` does not have in their place."""
    unmoved = [*before, *[None] * len(after)]
    return sum(len(written(new)) for old, new in zip(unmoved, after, strict=False) if old != new)


def is_system(message: Json) -> bool:
    role = message.get("role") if isinstance(message, dict) else None
    return isinstance(role, str) and role in SHARED_ROLES


def head_size(messages: Sequence[Json]) -> int:
    """How many system messages a conversation begins with."""
    return next((count for count, message in enumerate(messages) if not is_system(message)), len(messages))


def split_head(body: Body) -> tuple[list[Json], list[Json]]:
    """The leading system messages, and the others."""
    messages = as_list(body.get("messages"))
    size = head_size(messages)
    return messages[:size], messages[size:]


def texts_of(message: Json) -> Iterator[str]:
    """The texts in a message's content, which is a string or a list of parts."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield content
    for part in as_list(content):
        if _is_text_part(part):
            yield part["text"]


def with_texts(message: Json, change: Callable[[str], str | None]) -> Json | None:
    """The message with each of its texts changed. Where `change` gives None the part goes, and with its last part the
    message."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        text = change(content)
        return None if text is None else {**message, "content": text}
    if not isinstance(content, list) or not content:
        return message
    parts = [_changed_part(part, change) for part in content]
    kept = [part for part in parts if part is not None]
    return {**message, "content": kept} if kept else None


def _changed_part(part: Json, change: Callable[[str], str | None]) -> Json | None:
    if not _is_text_part(part):
        return part
    text = change(part["text"])
    return None if text is None else {**part, "text": text}


def _is_text_part(part: Json) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
