"""`/v1/messages/count_tokens`: the chat prompt is counted by an upstream's `/tokenize`.

The number is that of the rendered prompt, so it is what `usage` will say of the same request. Servers without that
endpoint get no say: the answer is then an estimate, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.dialects.base import Body
from gateway.dialects.messages.check import Warnings
from gateway.dialects.messages.errors import error_body
from gateway.dialects.messages.request import chat_prompt
from gateway.dialects.translate import Exchange, Failure

TOKENIZE = "/tokenize"
CHARS_PER_TOKEN = 4


class CountTokens:
    """A `Translator`."""

    def exchange(self, body: Body) -> Exchange:
        warnings = Warnings()
        prompt = chat_prompt(body, warnings)
        writer = CountWriter(len(json.dumps(prompt, ensure_ascii=False)) // CHARS_PER_TOKEN)
        return Exchange(prompt, False, writer, warnings.texts(), target=TOKENIZE, not_offered=writer.whole({}))

    def error(self, failure: Failure) -> bytes:
        return error_body(failure)


class CountWriter:
    """An `AnswerWriter` of whole answers: a count is never streamed. An estimate in its place is called one."""

    def __init__(self, estimate: int) -> None:
        self._estimate = estimate

    def whole(self, answer: Mapping[str, Any]) -> bytes:
        count = answer.get("count")
        if type(count) is int:
            return json.dumps({"input_tokens": count}).encode()
        return json.dumps({"input_tokens": self._estimate, "estimated": True}).encode()

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        return b""

    def end(self) -> bytes:
        return b""

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure)

    def heartbeat(self) -> bytes:
        return b""
