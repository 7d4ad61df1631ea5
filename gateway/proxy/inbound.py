"""How the requests of a path are read: as a chat that upstreams speak, or by way of a translation into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from gateway.dialects.base import Conversation, Dialect, parse_object
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.fim import COMPLETIONS
from gateway.dialects.translate import Failure, Translator
from gateway.errors import invalid_json
from gateway.proxy.outlet import Outlet, Translating, Verbatim, as_error

_CHAT = Chat()
_SPOKEN: Mapping[str, Dialect] = {COMPLETIONS: Completions()}
"""What upstreams are spoken to in, by path; chat otherwise."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request as it goes upstream, and the way of its answer."""

    conversation: Conversation
    target: str
    body: bytes
    stream: bool
    outlet: Outlet
    translated: bool = False
    warnings: tuple[str, ...] = ()


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
        return Inbound(self._dialect.parse(body), self._target, raw, body.get("stream") is True, Verbatim())

    def refuse(self, failure: Failure) -> bytes:
        return as_error(failure).payload()


class Translated:
    """Upstreams get a chat request, or another one of theirs that the translator names."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def read(self, raw: bytes) -> Inbound:
        exchange = self._translator.exchange(parse_object(raw))
        return Inbound(
            _SPOKEN.get(exchange.target, _CHAT).parse(exchange.body),
            exchange.target,
            _dump(exchange.body),
            exchange.stream,
            Translating(self._translator, exchange),
            translated=True,
            warnings=exchange.warnings,
        )

    def refuse(self, failure: Failure) -> bytes:
        return self._translator.error(failure)


def _dump(body: object) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # lone surrogates, numbers beyond 64 bits, endless nesting
        raise invalid_json(f"can't be passed on: {error}") from None
