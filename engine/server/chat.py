"""POST /v1/chat/completions: the engine's events as OpenAI's chunks or one answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.core import Event
from engine.output.stream import ChatStream, Delta
from engine.prompt.tokenizer import Tokenizer
from engine.schedule.request import Finish, Request
from engine.server.errors import error_body
from engine.server.sse import DONE
from engine.server.sse import event as sse
from engine.server.usage import chat_logprob, usage


@dataclass
class Choice:
    """One choice as it grows: its parser, and whether it has called a tool."""

    index: int
    parser: ChatStream
    called: bool = False
    deltas: list[Delta] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None

    def feed(self, event: Event) -> list[Delta]:
        """The deltas that this event adds."""
        found = self.parser.push(event.text) if event.text else []
        if event.finish is not None:
            found += self.parser.finish()
        self.called = self.called or any(delta.tool is not None for delta in found)
        if event.finish is not None:
            self.error = event.request.error
            self.finish_reason = "tool_calls" if self.called and event.finish is Finish.STOP else event.finish.value
        return found


class ChatAnswer:
    """Everything that the renderings of one call share."""

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        requests: Sequence[Request],
        new_parser: Callable[[], ChatStream],
        include_usage: bool,
        continuous_usage: bool = False,
    ) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.model = model
        self.tokenizer = tokenizer
        self.requests = requests
        self.include_usage = include_usage
        self.continuous_usage = continuous_usage
        self.choices = {request: Choice(i, new_parser()) for i, request in enumerate(requests)}

    async def stream(self, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
        """One kind of payload in a delta; usage only in the last chunk, which has no choices, unless asked for."""
        started: set[int] = set()
        async for event in events:
            choice = self.choices[event.request]
            if choice.index not in started:
                started.add(choice.index)
                yield self._chunk(choice.index, {"role": "assistant", "content": ""})
            logprob = chat_logprob(event, self.tokenizer)
            deltas = [delta.as_openai() for delta in choice.feed(event)] or ([{"content": ""}] if logprob else [])
            for number, delta in enumerate(deltas):
                yield self._chunk(choice.index, delta, logprob=logprob if number == 0 else None)
            if choice.error is not None:
                yield sse(error_body(choice.error, "generation_failed", status=500))
                return
            if choice.finish_reason is not None:
                yield self._chunk(choice.index, {}, finish_reason=choice.finish_reason)
        if self.include_usage:
            yield sse({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(self.requests)})
        yield DONE

    async def whole(self, events: AsyncIterator[Event]) -> dict[str, Any]:
        async for event in events:
            choice = self.choices[event.request]
            logprob = chat_logprob(event, self.tokenizer)
            choice.logprobs += [logprob] if logprob else []
            choice.deltas += choice.feed(event)
        return {
            **self._head("chat.completion"),
            "choices": [self._message(choice) for choice in self.choices.values()],
            "usage": usage(self.requests),
        }

    @property
    def error(self) -> str | None:
        return next((choice.error for choice in self.choices.values() if choice.error), None)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        finish_reason: str | None = None,
        logprob: dict[str, Any] | None = None,
    ) -> bytes:
        choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish_reason}
        if logprob is not None:
            choice["logprobs"] = {"content": [logprob]}
        so_far = {"usage": usage(self.requests[index : index + 1])} if self.continuous_usage else {}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice], **so_far})

    def _message(self, choice: Choice) -> dict[str, Any]:
        texts = _joined_texts(choice.deltas)
        calls = _joined_calls(choice.deltas)
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else "", **texts}
        if calls:
            message["tool_calls"] = calls
        whole: dict[str, Any] = {
            "index": choice.index,
            "message": message,
            "finish_reason": choice.finish_reason,
        }
        if choice.logprobs:
            whole["logprobs"] = {"content": choice.logprobs}
        return whole


def _joined_texts(deltas: Sequence[Delta]) -> dict[str, str]:
    """Content and reasoning, as far as there is any."""
    texts: dict[str, str] = {}
    for delta in deltas:
        for key, piece in delta.as_openai().items():
            if isinstance(piece, str) and piece:
                texts[key] = texts.get(key, "") + piece
    return texts


def _joined_calls(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    """Tool calls as a client would put them together from the stream."""
    calls: list[dict[str, Any]] = []
    for part in (delta.tool for delta in deltas if delta.tool is not None):
        if part.id is not None:
            function = {"name": part.name, "arguments": ""}
            calls.append({"id": part.id, "type": "function", "function": function})
        calls[part.index]["function"]["arguments"] += part.arguments
    return calls
