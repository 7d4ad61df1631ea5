"""Which headers pass, in either direction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gateway.rewrite.base import Note

RawHeaders = Sequence[tuple[bytes, bytes]]

OURS = b"x-sapwood-"
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_SET_UPSTREAM = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"accept-encoding"}
_SET_DOWNSTREAM = HOP_BY_HOP | {b"date", b"server"}
_OF_BODY = frozenset({b"content-length", b"content-type", b"content-encoding", b"etag"})
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})
RETAIN = b"x-sapwood-retain"
_SECONDS = re.compile(rb"\d{1,6}(\.\d{1,6})?")
AHEAD = (b"x-sapwood-ahead", b"1")
"""Asks an engine to compute the beginning of the next prompt while tools run, where it isn't what was generated."""
WARNING = b"x-sapwood-warning"
REWRITE = b"x-sapwood-rewrite"
MAX_WARNING = 1024
_FROM_ENGINE = frozenset({b"x-sapwood-epoch", b"x-sapwood-node"})


def to_upstream(headers: RawHeaders, *, tenant: str, session: str) -> list[tuple[bytes, bytes]]:
    """The client's headers, minus hop-by-hop and its own `x-sapwood-*`, plus what the engine may trust.

    Bodies are asked for uncompressed: the relay adds no delay by it on a local net, and usage can be read.
    """
    dropped = _SET_UPSTREAM | _named_by_connection(headers)
    passed = [(k, v) for k, v in headers if k not in dropped and not k.startswith(OURS)]
    return [
        *passed,
        (b"accept-encoding", b"identity"),
        (b"x-sapwood-tenant", tenant.encode()),
        (b"x-sapwood-session", session.encode()),
    ]


def without_credentials(headers: RawHeaders) -> RawHeaders:
    """A key of this gateway's is no business of an upstream."""
    return [(name, value) for name, value in headers if name not in _CREDENTIALS]


def to_client(headers: RawHeaders, *, replica: str, translated: bool = False) -> list[tuple[bytes, bytes]]:
    """The upstream's headers, minus hop-by-hop, plus the replica that answered. Those of a body that is `translated`
    don't hold for what the client gets, except for its being a stream."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _SET_DOWNSTREAM | _named_by_connection(lowered) | (_OF_BODY if translated else frozenset())
    if any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in lowered):
        dropped |= {b"content-length"}  # a stream that breaks gets an event more than it announced
    passed = [(k, v) for k, v in lowered if k not in dropped and (not k.startswith(OURS) or k in _FROM_ENGINE)]
    return [*passed, (b"x-sapwood-replica", replica.encode())]


def said_by_gateway(warnings: Sequence[str], rewritten: Sequence[Note] = ()) -> list[tuple[bytes, bytes]]:
    """What was left out of a request on its way, and which rules have changed how many of its bytes."""
    said: list[tuple[bytes, bytes]] = []
    if warnings:
        said.append((WARNING, "; ".join(warnings).encode("ascii", "backslashreplace")[:MAX_WARNING]))
    if rewritten:
        said.append((REWRITE, ", ".join(f"{note.rule.value}={note.changed}" for note in rewritten).encode()))
    return said


def seconds_in(headers: RawHeaders) -> float | None:
    """What a client's `x-sapwood-retain` says of the gap behind this turn; None where it says nothing of use."""
    for name, value in headers:
        if name == RETAIN and _SECONDS.fullmatch(value):
            return float(value)
    return None


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    return {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
