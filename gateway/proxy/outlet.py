"""What becomes of an upstream's answer on its way to the client: the same bytes, or another dialect.

An outlet belongs to one request. `Verbatim` hands bytes on as they come; `Translating` reads the chat answer out of
them and lets the dialect's `AnswerWriter` say it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.dialects.translate import Exchange, Failure, Translator
from gateway.errors import GatewayError
from gateway.proxy.events import EventCutter, as_object

STREAM_TYPE = "text/event-stream"
JSON_TYPE = "application/json"
NOT_OFFERED = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Held:
    """An answer that was held until it was whole, as the client is to have it."""

    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Those that describe the body."""
        length = str(len(self.body)).encode()
        return [(b"content-type", self.content_type.encode()), (b"content-length", length)]


class Outlet(Protocol):
    def holds(self, status: int, content_type: str, begun: bool) -> bool:
        """Whether an answer like this can be given to the client only when it is whole. `begun`: the client has
        heard signs of life, so that whatever comes must come as events."""
        ...

    def held(self, status: int, body: bytes, begun: bool) -> Held:
        """Such an answer, whole."""
        ...

    def feed(self, data: bytes) -> bytes:
        """What to send for these bytes of a stream."""
        ...

    def end(self) -> bytes:
        """What to send last, when the upstream has ended its stream in order."""
        ...

    def fail(self, error: Failure) -> bytes:
        """What to send last, when the stream has broken."""
        ...

    def heartbeat(self) -> bytes: ...

    def refuse(self, error: Failure) -> bytes:
        """The JSON body of an answer that is an error from its beginning."""
        ...


class Verbatim:
    """Bytes for bytes."""

    def __init__(self) -> None:
        self._tail = b""

    def holds(self, status: int, content_type: str, begun: bool) -> bool:
        return begun and not content_type.startswith(STREAM_TYPE)

    def held(self, status: int, body: bytes, begun: bool) -> Held:
        if status >= 400:
            return Held(status, STREAM_TYPE, self.fail(failure_in(status, body)))
        return Held(status, STREAM_TYPE, b"data: " + b" ".join(body.splitlines()) + b"\n\ndata: [DONE]\n\n")

    def feed(self, data: bytes) -> bytes:
        self._tail = data[-4:] if len(data) > 3 else (self._tail + data)[-4:]
        return data

    def end(self) -> bytes:
        return b""

    def fail(self, error: Failure) -> bytes:
        begun = b"" if self.between_events else b"\n\n"
        return begun + b"data: " + as_error(error).payload() + b"\n\n"

    def heartbeat(self) -> bytes:
        """A comment, but not `: ping`, which a common client takes for the end of what it has read. Within an event
        there is no place for one."""
        return b": keep-alive\n\n" if self.between_events else b""

    def refuse(self, error: Failure) -> bytes:
        return as_error(error).payload()

    @property
    def between_events(self) -> bool:
        """Whether the stream so far ends with a whole event, or has not begun."""
        tail = self._tail.replace(b"\r\n", b"\n")
        return not tail or tail.endswith((b"\n\n", b"\r\r"))


class Translating:
    """A chat answer in the client's dialect."""

    def __init__(self, translator: Translator, exchange: Exchange) -> None:
        self._translator = translator
        self._writer = exchange.answer
        self._stream = exchange.stream
        self._not_offered = exchange.not_offered
        self._fails_as_event = exchange.fails_as_event if exchange.stream else frozenset()
        self._events = EventCutter()
        self._over = False

    def holds(self, status: int, content_type: str, begun: bool) -> bool:
        return not (status < 400 and self._stream and content_type.startswith(STREAM_TYPE))

    def held(self, status: int, body: bytes, begun: bool) -> Held:
        answer = as_object(body)
        if status in NOT_OFFERED and self._not_offered is not None:
            return Held(200, JSON_TYPE, self._not_offered)
        if status >= 400:
            return self._refused(failure_in(status, body), begun)
        if answer is None:
            return self._refused(Failure(502, "The upstream's answer is no JSON object.", "upstream_invalid"), begun)
        if self._stream:
            return Held(status, STREAM_TYPE, self._as_stream(answer))
        return Held(status, JSON_TYPE, self._writer.whole(answer))

    def _refused(self, failure: Failure, begun: bool) -> Held:
        if begun or failure.code in self._fails_as_event:
            return Held(200, STREAM_TYPE, self.fail(failure))
        return Held(failure.status, JSON_TYPE, self._translator.error(failure))

    def feed(self, data: bytes) -> bytes:
        try:
            return b"".join([self._event(event) for event in self._events.feed(data)])
        except ValueError as error:
            return self.fail(Failure(502, str(error), "upstream_invalid"))

    def end(self) -> bytes:
        said = b"".join([self._event(event) for event in self._events.end()])
        if self._over:
            return said
        self._over = True
        return said + self._writer.end()

    def fail(self, error: Failure) -> bytes:
        if self._over:
            return b""
        self._over = True
        return self._writer.fail(error)

    def heartbeat(self) -> bytes:
        return b"" if self._over else self._writer.heartbeat()

    def refuse(self, error: Failure) -> bytes:
        return self._translator.error(error)

    def _event(self, data: bytes) -> bytes:
        if self._over or data == b"[DONE]":
            return b""
        chunk = as_object(data)
        if chunk is None:
            return b""
        if "error" in chunk and not chunk.get("choices"):
            return self.fail(failure_in(502, data))
        return self._writer.chunk(chunk)

    def _as_stream(self, answer: Mapping[str, Any]) -> bytes:
        """An upstream that knows no streams has answered a request for one."""
        choices = [
            {**choice, "delta": choice.get("message") or {}}
            for choice in answer.get("choices") or ()
            if isinstance(choice, Mapping)
        ]
        self._over = True
        return self._writer.chunk({**answer, "choices": choices}) + self._writer.end()


def failure_in(status: int, body: bytes) -> Failure:
    """The error that an upstream reports, in OpenAI's shape or any other."""
    answer = as_object(body) or {}
    error = answer.get("error")
    said = error if isinstance(error, Mapping) else answer
    message = next((text for text in (said.get("message"), error) if isinstance(text, str) and text), None)
    if message is None:
        message = body[:500].decode("utf-8", "replace") or "The upstream gave no reason."
    code, param = said.get("code"), said.get("param")
    if not isinstance(code, str) or not code:
        code = "context_length_exceeded" if "maximum context length" in message else "upstream_error"
    return Failure(status, message, code, param if isinstance(param, str) else None)


def as_error(failure: Failure) -> GatewayError:
    return GatewayError(failure.message, code=failure.code, status=failure.status, param=failure.param)


def as_failure(error: GatewayError) -> Failure:
    return Failure(error.status, error.message, error.code, error.param)
