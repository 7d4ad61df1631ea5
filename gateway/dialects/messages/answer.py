"""Writes a chat answer as Anthropic's message, whole or as its stream of events.

Both go through the same sequence of blocks, so a stream adds up to what the whole answer would have said. Arguments
of a call are passed on as they came, also broken off; the whole answer, whose `input` must be an object, has an empty
one then. Either way `stop_reason` is `max_tokens`, so that no client runs such a call.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.dialects.messages.errors import error_body
from gateway.dialects.messages.events import PING, block_delta, block_start, block_stop, event, whole_block
from gateway.dialects.messages.reading import read
from gateway.dialects.messages.sequence import BlockSequence, Step
from gateway.dialects.messages.usage import matched_stop, stop_reason, usage_of
from gateway.dialects.translate import Failure


@dataclass(frozen=True, slots=True)
class Wishes:
    """What of a request its answer depends on."""

    model: str
    """As the client has named it."""
    stops: frozenset[str] = frozenset()
    omit_thinking: bool = False
    """Thinking blocks come without their text."""
    mute: bool = False
    """No answer at all, only the prompt in the cache (`max_tokens: 0`)."""


class MessageWriter:
    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._id = f"msg_{secrets.token_hex(12)}"
        self._blocks = BlockSequence()
        self._usage: Any = None
        self._finish: str | None = None
        self._stop: str | None = None
        self._begun = False
        self._over = False

    def whole(self, answer: Mapping[str, Any]) -> bytes:
        self._usage = answer.get("usage")
        self._read(answer, "message")
        content = [whole_block(block, self._wishes.omit_thinking) for block in self._blocks.said()]
        try:
            return json.dumps(self._message(content) | self._ending()).encode()
        except RecursionError:  # arguments that could just be read, but not be written a few levels deeper
            shallow = [block | {"input": {}} if "input" in block else block for block in content]
            return json.dumps(self._message(shallow) | self._ending() | {"stop_reason": "max_tokens"}).encode()

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        if self._over:
            return b""
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = chunk["usage"]
        self._read(chunk, "delta")
        told = self._begin() + b"".join(self._events())
        # What is left out (omitted thinking) or held back (interleaved calls) is a sign of life all the same.
        return told or (PING if self._finish is None else b"")

    def end(self) -> bytes:
        if self._over:
            return b""
        told = self._begin() + b"".join(self._events(last=True))
        self._over = True
        ending = self._ending()
        usage = ending.pop("usage")
        return told + event("message_delta", {"delta": ending, "usage": usage}) + event("message_stop", {})

    def fail(self, failure: Failure) -> bytes:
        if self._over:
            return b""
        self._over = True
        return b"event: error\ndata: " + error_body(failure) + b"\n\n"

    def heartbeat(self) -> bytes:
        if self._over:
            return b""
        return PING if self._begun else self._begin()

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        message = self._message([]) | {"stop_reason": None, "stop_sequence": None, "usage": usage_of(self._usage)}
        return event("message_start", {"message": message}) + PING

    def _message(self, content: list[Any]) -> dict[str, Any]:
        model = self._wishes.model
        return {"id": self._id, "type": "message", "role": "assistant", "model": model, "content": content}

    def _ending(self) -> dict[str, Any]:
        finish = "length" if self._wishes.mute else self._finish
        reason = stop_reason(finish, self._stop, self._blocks.said())
        return {
            "stop_reason": reason,
            "stop_sequence": self._stop if reason == "stop_sequence" else None,
            "usage": usage_of(self._usage),
        }

    def _read(self, answer: Mapping[str, Any], key: str) -> None:
        """The first choice of an answer, or of a chunk of one."""
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            return
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish
            self._stop = matched_stop(choice, self._wishes.stops)
        said = choice.get(key)
        if isinstance(said, Mapping) and not self._wishes.mute:
            read(said, self._blocks)

    def _events(self, last: bool = False) -> Iterator[bytes]:
        omit = self._wishes.omit_thinking
        for step, block in self._blocks.steps(last):
            if step is Step.START:
                yield block_start(block)
            elif step is Step.MORE:
                yield block_delta(block, omit)
            else:
                yield block_stop(block, omit)
