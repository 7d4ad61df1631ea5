"""What a dialect provides that upstreams don't speak: chat completions are the language in the middle.

A request becomes a chat request, and the chat answer is written back in the client's dialect. All of it is pure:
the relay does the sending, cuts the upstream's stream into chunks, and decides when a heartbeat is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.dialects.base import Body

CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for the client, the gateway's own or an upstream's, without a shape yet."""

    status: int
    message: str
    code: str
    """Stable: `context_length_exceeded`, `invalid_json`, `no_replica`, …; the upstream's own where it gave one."""
    param: str | None = None


class AnswerWriter(Protocol):
    """Writes one chat answer in the client's dialect; it keeps what the answer's stream has said so far.

    For a stream each method returns whole server-sent events as bytes, which may be none. Nothing may follow `end` or
    `fail`. What upstreams leave out or get wrong (no usage, no finish_reason, odd types) must not raise.
    """

    def whole(self, answer: Mapping[str, Any]) -> bytes:
        """The JSON body for a `chat.completion`."""
        ...

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events for one `chat.completion.chunk`."""
        ...

    def end(self) -> bytes:
        """The upstream's stream is over: what is still to be said, up to the dialect's last event."""
        ...

    def fail(self, failure: Failure) -> bytes:
        """The stream broke: the dialect's own way to say so."""
        ...

    def heartbeat(self) -> bytes:
        """An event that says nothing but that the answer is still coming, in the form that clients' timers count.
        It may come before the first chunk."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as a chat upstream is to see it, and who writes its answer."""

    body: Body
    """The chat request. A stream asks for `stream_options.include_usage`."""
    stream: bool
    answer: AnswerWriter
    warnings: tuple[str, ...] = ()
    """What was left out on the way, in a few words each; sent as response headers."""
    target: str = CHAT
    """The upstream's path."""
    not_offered: bytes | None = None
    """The answer where the upstream knows no such path; None to pass its own on."""
    fails_as_event: frozenset[str] = frozenset()
    """Codes of errors that the client understands within a stream only: a stream is begun to say them."""


class Translator(Protocol):
    """A dialect that is translated. Stateless."""

    def exchange(self, body: Body) -> Exchange:
        """GatewayError (400, a stable code, `param` where known) for what can't be said as a chat request."""
        ...

    def error(self, failure: Failure) -> bytes:
        """The body of an answer with that status, in the dialect's shape."""
        ...
