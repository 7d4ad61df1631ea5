"""Reading a request's fields: what is malformed is refused with its path, what can't be carried over is noted.

Paths are written as Anthropic writes them: `messages.3.content.0.text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.errors import GatewayError

Json = Any

MAX_WARNINGS = 8
MAX_WARNING_CHARS = 120


class Warnings:
    """What was left out of a request: each thing once, few, and short enough for a response header."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        if len(self._texts) < MAX_WARNINGS:
            printable = "".join(char if " " <= char <= "~" else "?" for char in text)
            self._texts[printable[:MAX_WARNING_CHARS]] = None

    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)


def invalid(path: str, why: str) -> GatewayError:
    return GatewayError(f"{path}: {why}", code="invalid_value", status=400, param=path)


def missing(path: str) -> GatewayError:
    return GatewayError(f"{path}: Field required", code="missing_parameter", status=400, param=path)


def unsupported(path: str, why: str) -> GatewayError:
    return GatewayError(f"{path}: {why}", code="unsupported_content", status=400, param=path)


def an_object(value: Json, path: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise invalid(path, "Input should be an object")
    return value


def a_list(value: Json, path: str) -> list[Json]:
    if not isinstance(value, list):
        raise invalid(path, "Input should be a list")
    return value


def a_string(holder: Mapping[str, Json], key: str, path: str) -> str:
    """A string that must be there; it may be empty."""
    value = holder.get(key)
    if value is None:
        raise missing(f"{path}.{key}" if path else key)
    if not isinstance(value, str):
        raise invalid(f"{path}.{key}" if path else key, "Input should be a string")
    return value


def a_name(holder: Mapping[str, Json], key: str, path: str) -> str:
    """A string that says something."""
    value = a_string(holder, key, path)
    if not value:
        raise invalid(f"{path}.{key}" if path else key, "Input should not be empty")
    return value


def optional_object(holder: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = holder.get(key)
    return {} if value is None else an_object(value, key)


def optional_list(holder: Mapping[str, Json], key: str) -> list[Json]:
    value = holder.get(key)
    return [] if value is None else a_list(value, key)


def optional_bool(holder: Mapping[str, Json], key: str, path: str = "") -> bool:
    value = holder.get(key)
    if value is not None and not isinstance(value, bool):
        raise invalid(f"{path}.{key}" if path else key, "Input should be true or false")
    return value is True
