"""Reading a client's JSON: each value with the type that it must have, or a 400 that names the place."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from gateway.errors import GatewayError

HEADER_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class Fields:
    """A JSON object of the request and its place in it. `null` means absent everywhere."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values = values
        self.path = path

    def param(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def raw(self, name: str) -> Any:
        return self.values.get(name)

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if not isinstance(value, str | None):
            raise self.wrong(name, "a string")
        return value

    def needed_text(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise refused(self.param(name), f"`{self.param(name)}` is missing: a string", "missing_parameter")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if not isinstance(value, bool | None):
            raise self.wrong(name, "true or false")
        return value

    def integer(self, name: str) -> int | None:
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, int | None):
            raise self.wrong(name, "an integer")
        return value

    def number(self, name: str) -> float | None:
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise self.wrong(name, "a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(name, "a finite number")
        return value

    def mapping(self, name: str) -> Fields | None:
        value = self.raw(name)
        return None if value is None else as_fields(value, self.param(name))

    def array(self, name: str) -> list[Any] | None:
        value = self.raw(name)
        if not isinstance(value, list | None):
            raise self.wrong(name, "an array")
        return value

    def mappings(self, name: str) -> list[Fields]:
        """An array of objects."""
        return [as_fields(value, f"{self.param(name)}[{at}]") for at, value in enumerate(self.array(name) or [])]

    def wrong(self, name: str, wanted: str) -> GatewayError:
        return refused(self.param(name), f"`{self.param(name)}` must be {wanted}")


def as_fields(value: Any, path: str) -> Fields:
    if not isinstance(value, dict):
        raise refused(path, f"`{path}` must be an object")
    return Fields(value, path)


def refused(param: str | None, why: str, code: str = "invalid_value") -> GatewayError:
    return GatewayError(f"{why}.", code=code, status=400, param=param)


def shown(value: Any) -> str:
    """A client's word, fit for a message."""
    return f"{value!r:.80}"


def header_safe(word: str) -> str:
    """A client's word, fit for a response header."""
    return word if HEADER_SAFE.fullmatch(word) else "unknown"
