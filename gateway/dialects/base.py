"""What every dialect is parsed into: the parts of a request that decide what the model sees, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import orjson

from gateway.errors import invalid_json

Json = Any
Body = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request as a sequence of blocks that only grows at its end from turn to turn.

    Nothing here is checked beyond being JSON: what a field may hold is the upstream's to say, and its
    answer is relayed unchanged. So a dialect keeps odd values and never raises.
    """

    model: str
    options: Mapping[str, Json]
    """Fields besides tools and messages that change the prompt; they come before everything else."""
    tools: Sequence[Json]
    messages: Sequence[Json]
    head: int
    """How many leading messages are shared between conversations (system and developer messages)."""
    growing: bool = False
    """The last message may be continued by the next turn (plain completions), so it is no firm boundary."""
    session: str | None = None
    user: str | None = None


class Dialect(Protocol):
    def parse(self, body: Body) -> Conversation: ...


def parse_object(raw: bytes) -> dict[str, Json]:
    """The body as a JSON object, or `invalid_json`. Strict: UTF-8 only, no NaN, no endless nesting."""
    try:
        body = orjson.loads(raw)
    except ValueError:
        body = _parse_slowly(raw)
    if not isinstance(body, dict):
        raise invalid_json("is not a JSON object")
    return body


def _parse_slowly(raw: bytes) -> Json:
    """What the fast parser refuses: it takes no lone surrogates, which clients send, and says less of what is wrong."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise invalid_json(f"is not valid UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise invalid_json("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise invalid_json(f"is not valid JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # a number of thousands of digits, NaN
        raise invalid_json(f"is not valid JSON: {error}") from None


def as_text(value: Json) -> str | None:
    """A non-empty string, or None for everything else."""
    return value if isinstance(value, str) and value else None


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
