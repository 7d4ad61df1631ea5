"""POST /v1/completions: plain text in, plain text out."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from engine.core import Event
from engine.prompt.detokenizer import Detokenizer
from engine.prompt.tokenizer import Tokenizer
from engine.schedule.request import Request
from engine.server.errors import error_body
from engine.server.prepare import Prompt
from engine.server.sse import DONE
from engine.server.sse import event as sse
from engine.server.usage import reported, token_text, total_usage, usage


class CompletionAnswer:
    """Choices are numbered over all prompts: prompt by prompt, `n` each."""

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        groups: Sequence[tuple[Prompt, list[Request]]],
        echo: bool,
        include_usage: bool,
        continuous_usage: bool = False,
    ) -> None:
        self.id = f"cmpl-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.model = model
        self.tokenizer = tokenizer
        self.groups = [requests for _, requests in groups]
        self.include_usage = include_usage
        self.continuous_usage = continuous_usage
        self.index: dict[Request, int] = {}
        self.texts: list[str] = []
        for prompt, requests in groups:
            for request in requests:
                self.index[request] = len(self.texts)
                self.texts.append(self._echoed(prompt) if echo else "")
        self.requests = list(self.index)
        self.offsets = [Offsets(tokenizer, len(text)) for text in self.texts]
        self.finish: list[str | None] = [None] * len(self.texts)
        self.events: list[list[Event]] = [[] for _ in self.texts]
        self.error: str | None = None

    async def stream(self, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
        for index, text in enumerate(self.texts):
            if text:
                yield self._chunk(index, text, None)
        async for event in events:
            index = self.index[event.request]
            finish = event.finish.value if event.finish is not None else None
            if event.request.error is not None:
                yield sse(error_body(event.request.error, "generation_failed", status=500))
                return
            logprobs = self._logprobs(index, [event])
            if event.text or finish or logprobs:
                yield self._chunk(index, event.text, finish, logprobs)
        if self.include_usage:
            yield sse({**self._head(), "choices": [], "usage": total_usage(self.groups)})
        yield DONE

    async def whole(self, events: AsyncIterator[Event]) -> dict[str, Any]:
        async for event in events:
            index = self.index[event.request]
            self.texts[index] += event.text
            self.events[index].append(event)
            if event.finish is not None:
                self.finish[index] = event.finish.value
                self.error = self.error or event.request.error
        choices = [
            {"index": i, "text": text, "finish_reason": self.finish[i], "logprobs": self._logprobs(i, self.events[i])}
            for i, text in enumerate(self.texts)
        ]
        return {**self._head(), "choices": choices, "usage": total_usage(self.groups)}

    def _echoed(self, prompt: Prompt) -> str:
        return prompt.text if prompt.text is not None else self.tokenizer.decode(prompt.ids)

    def _logprobs(self, index: int, events: Sequence[Event]) -> dict[str, Any] | None:
        """Of the tokens of a choice's next events; None where the request asked for none."""
        found = [sampled for event in events if (sampled := reported(event)) is not None]
        if not found:
            return None
        return {
            "tokens": [self._text(sampled.token) for sampled in found],
            "token_logprobs": [sampled.logprob for sampled in found],
            "top_logprobs": [{self._text(token): logprob for token, logprob in s.top or []} for s in found],
            "text_offset": [self.offsets[index].of(sampled.token) for sampled in found],
        }

    def _text(self, token: int) -> str:
        return token_text(token, self.tokenizer)

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}

    def _chunk(self, index: int, text: str, finish: str | None, logprobs: dict[str, Any] | None = None) -> bytes:
        choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": logprobs}
        so_far = {"usage": usage(self.requests[index : index + 1])} if self.continuous_usage else {}
        return sse({**self._head(), "choices": [choice], **so_far})


class Offsets:
    """Where each token of a choice begins in its text, in characters; `start` is the length of the echo.

    A token within a character begins where the character does.
    """

    def __init__(self, tokenizer: Tokenizer, start: int) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._at = start

    def of(self, token: int) -> int:
        at = self._at
        self._at += len(self._detokenizer.push(token))
        return at
