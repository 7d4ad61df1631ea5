"""`keep_reasoning`: earlier turns get back the reasoning that a client drops, or trims, when it sends them again.

A turn is known by all that was said before it, system messages left aside, so that the same words in another
conversation are another turn. Reasoning that a client has put there itself stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gateway.canonical.form import canonical_message, encode
from gateway.dialects.base import Body, Json, as_list
from gateway.rewrite.base import Edit, size_of, split_head, texts_of

FIELDS = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class Thought:
    """The reasoning of one answer, and the field in which it came."""

    field: str
    text: str

    @property
    def size(self) -> int:
        return len(self.text)


def keep_reasoning(body: Body, recall: Callable[[bytes], Thought | None]) -> Edit:
    """`recall` knows the reasoning of a turn by its digest."""
    head, rest = split_head(body)
    added = 0
    kept: list[Json] = []
    for message, digest in zip(rest, turn_digests(rest), strict=True):
        thought = recall(digest) if _is_assistant(message) else None
        told = thought_in(message)
        if thought is None or (told and (told == thought or told.text.strip() != thought.text.strip())):
            kept.append(message)
            continue
        kept.append({**{key: item for key, item in message.items() if key not in FIELDS}, thought.field: thought.text})
        added += max(1, size_of(thought.text) - (size_of(told.text) if told else 0))
    return Edit({**body, "messages": [*head, *kept]}, added) if added else Edit(body)


def answer_digest(body: Body, answer: Json) -> bytes:
    """The digest by which the answer to a request is known once it is an earlier turn."""
    *_, last = turn_digests([*split_head(body)[1], answer])
    return last


def thought_in(message: Json) -> Thought | None:
    if not isinstance(message, dict):
        return None
    found = ((field, message.get(field)) for field in FIELDS)
    return next((Thought(field, text) for field, text in found if isinstance(text, str) and text), None)


def turn_digests(messages: Sequence[Json]) -> Iterator[bytes]:
    """For each message, what stands for it and all before it, without any reasoning."""
    digest = b""
    for message in messages:
        said = _said(message) if _is_assistant(message) else canonical_message(message)
        digest = blake2b(digest + said, digest_size=16).digest()
        yield digest


def _is_assistant(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _said(message: dict[str, Json]) -> bytes:
    """Text and calls; clients add fields of their own, and trim."""
    calls = canonical_message({"tool_calls": as_list(message.get("tool_calls"))})
    return encode("".join(texts_of(message)).strip()) + calls
