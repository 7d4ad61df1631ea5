"""How the requests of a path are read: as a chat that upstreams speak, or by way of a translation into one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from gateway.dialects.base import Body, Conversation, Dialect, parse_object
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.fim import COMPLETIONS
from gateway.dialects.translate import Failure, Translator
from gateway.errors import invalid_json
from gateway.proxy.outlet import Outlet, Translating, Verbatim, as_error
from gateway.rewrite.base import Note
from gateway.rewrite.rewriter import Heard

_CHAT = Chat()
_SPOKEN: Mapping[str, Dialect] = {COMPLETIONS: Completions()}
"""What upstreams are spoken to in, by path; chat otherwise."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request as it goes upstream, and the way of its answer."""

    conversation: Conversation
    parsed: Body
    """What goes upstream, as the object that `body` is the text of."""
    dialect: Dialect
    """In which that is written."""
    target: str
    body: bytes
    stream: bool
    outlet: Outlet
    translated: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    """Of the rewrite rules that changed something."""
    heard: Heard | None = None
    """Who must hear the upstream's answer for the rules of later turns."""

    def with_body(self, body: Body) -> Inbound:
        """GatewayError `invalid_json` for what can't be written out again."""
        return replace(self, conversation=self.dialect.parse(body), parsed=body, body=_write_anew(body))


class Reader(Protocol):
    def read(self, raw: bytes) -> Inbound:
        """GatewayError for what can't be read."""
        ...

    def refuse(self, failure: Failure) -> bytes:
        """The JSON body of an error, for a request that could not be read."""
        ...


class Passing:
    """The body goes upstream as it came, and the answer comes back so."""

    def __init__(self, target: str, dialect: Dialect) -> None:
        self._target = target
        self._dialect = dialect

    def read(self, raw: bytes) -> Inbound:
        body = parse_object(raw)
        conversation, stream = self._dialect.parse(body), body.get("stream") is True
        return Inbound(conversation, body, self._dialect, self._target, raw, stream, Verbatim())

    def refuse(self, failure: Failure) -> bytes:
        return as_error(failure).payload()


class Translated:
    """Upstreams get a chat request, or another one of theirs that the translator names."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def read(self, raw: bytes) -> Inbound:
        exchange = self._translator.exchange(parse_object(raw))
        dialect = _SPOKEN.get(exchange.target, _CHAT)
        return Inbound(
            dialect.parse(exchange.body),
            exchange.body,
            dialect,
            exchange.target,
            _dump(exchange.body),
            exchange.stream,
            Translating(self._translator, exchange),
            translated=True,
            warnings=exchange.warnings,
        )

    def refuse(self, failure: Failure) -> bytes:
        return self._translator.error(failure)


def _write_anew(body: Body) -> bytes:
    """A client's own body: what orjson can't write is written the slower way."""
    try:
        return orjson.dumps(body)
    except TypeError:
        pass
    try:
        return json.dumps(body, allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise invalid_json(f"can't be passed on: {error}") from None


def _dump(body: object) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # lone surrogates, numbers beyond 64 bits, endless nesting
        raise invalid_json(f"can't be passed on: {error}") from None
