"""POST /v1/completions: plain text in, plain text out."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from engine.core import Event
from engine.prompt.tokenizer import Tokenizer
from engine.schedule.request import Request
from engine.server.errors import error_body
from engine.server.prepare import Prompt
from engine.server.sse import DONE
from engine.server.sse import event as sse
from engine.server.usage import total_usage


class CompletionAnswer:
    """Choices are numbered over all prompts: prompt by prompt, `n` each."""

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        groups: Sequence[tuple[Prompt, list[Request]]],
        echo: bool,
        include_usage: bool,
    ) -> None:
        self.id = f"cmpl-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.model = model
        self.tokenizer = tokenizer
        self.groups = [requests for _, requests in groups]
        self.include_usage = include_usage
        self.index: dict[Request, int] = {}
        self.texts: list[str] = []
        for prompt, requests in groups:
            for request in requests:
                self.index[request] = len(self.texts)
                self.texts.append(self._echoed(prompt) if echo else "")
        self.finish: list[str | None] = [None] * len(self.texts)
        self.logprobs: list[list[dict[str, Any]]] = [[] for _ in self.texts]
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
            if event.text or finish:
                yield self._chunk(index, event.text, finish)
        if self.include_usage:
            yield sse({**self._head(), "choices": [], "usage": total_usage(self.groups)})
        yield DONE

    async def whole(self, events: AsyncIterator[Event]) -> dict[str, Any]:
        async for event in events:
            index = self.index[event.request]
            self.texts[index] += event.text
            self._note_logprob(index, event)
            if event.finish is not None:
                self.finish[index] = event.finish.value
                self.error = self.error or event.request.error
        choices = [
            {"index": i, "text": text, "finish_reason": self.finish[i], "logprobs": self._logprobs(i)}
            for i, text in enumerate(self.texts)
        ]
        return {**self._head(), "choices": choices, "usage": total_usage(self.groups)}

    def _echoed(self, prompt: Prompt) -> str:
        return prompt.text if prompt.text is not None else self.tokenizer.decode(prompt.ids)

    def _note_logprob(self, index: int, event: Event) -> None:
        sampled = event.sampled
        if sampled is not None and event.request.sampling.logprobs is not None:
            self.logprobs[index].append(
                {
                    "token": self._text(sampled.token),
                    "logprob": sampled.logprob,
                    "top": {self._text(token): logprob for token, logprob in sampled.top or []},
                }
            )

    def _logprobs(self, index: int) -> dict[str, Any] | None:
        found = self.logprobs[index]
        if not found:
            return None
        return {
            "tokens": [entry["token"] for entry in found],
            "token_logprobs": [entry["logprob"] for entry in found],
            "top_logprobs": [entry["top"] for entry in found],
        }

    def _text(self, token: int) -> str:
        return self.tokenizer.token_bytes(token).decode(errors="replace")

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}

    def _chunk(self, index: int, text: str, finish: str | None) -> bytes:
        choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": None}
        return sse({**self._head(), "choices": [choice]})
