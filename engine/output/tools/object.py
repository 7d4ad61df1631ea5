"""A call as a JSON object with a name and arguments, which may not be finished."""

from __future__ import annotations

import json
from collections.abc import Container

from engine.output.tools.base import Call
from engine.output.tools.reading import TEXT, UNDECIDED, Reading, still_open, whole
from engine.output.tools.scan import skip_space, value_end

NAME = "name"
ARGUMENTS = "arguments"


class ObjectReader:
    """Reads the object at a place. Once its name and the start of its arguments are there, it is a call.

    `arguments` are the keys that arguments may have. `names`: any JSON may stand here, so only an object that calls
    one of these, with no other keys in front, is a call.
    """

    def __init__(self, arguments: tuple[str, ...] = (ARGUMENTS,), names: Container[str] | None = None) -> None:
        self._arguments = arguments
        self._names = names
        self._known = frozenset({NAME, "type", *arguments})

    def __call__(self, text: str, start: int) -> Reading:
        if start == len(text):
            return UNDECIDED
        if text[start] != "{":
            return TEXT
        members: dict[str, str] = {}
        at = start + 1
        while True:
            at = skip_space(text, at)
            if at < len(text) and text[at] == ",":
                at = skip_space(text, at + 1)
            if at == len(text):
                return self._broken_off(members)
            if text[at] == "}":
                return self._whole({ARGUMENTS: "{}", **members}, at + 1)
            colon = _key_end(text, at)
            if colon is None:
                return self._broken_off(members)
            if colon < 0:
                return self._whole(members, at)
            key = self._key(text[at:colon])
            at = skip_space(text, colon)
            end = value_end(text, at)
            if not self._fits(key, members):
                return TEXT
            if end is None:
                if at < len(text):
                    members.setdefault(key, text[at:] if key == ARGUMENTS else "")
                return self._broken_off(members)
            if end == at:
                return self._whole(members, at)
            members.setdefault(key, text[at:end])  # of a repeated key the first counts: it may be sent already
            at = end

    def _key(self, source: str) -> str:
        key = _string(source.rstrip().removesuffix(":").rstrip())
        return ARGUMENTS if key in self._arguments else key

    def _fits(self, key: str, members: dict[str, str]) -> bool:
        """Whether this can still be a call, where any JSON may stand."""
        return self._names is None or key in self._known or self._call(members) is not None

    def _whole(self, members: dict[str, str], end: int) -> Reading:
        """The object ends here. What is not JSON ends one that was already seen as a call, too."""
        call = self._call(members)
        return TEXT if call is None else whole(call, end)

    def _broken_off(self, members: dict[str, str]) -> Reading:
        call = self._call(members)
        if call is not None:
            return still_open(call)
        named = _string(members.get(NAME, ""))
        return TEXT if named and not self._callable(named) else UNDECIDED

    def _call(self, members: dict[str, str]) -> Call | None:
        name = _string(members.get(NAME, ""))
        return Call(name, members[ARGUMENTS]) if self._callable(name) and ARGUMENTS in members else None

    def _callable(self, name: str) -> bool:
        return bool(name) and (self._names is None or name in self._names)


def _key_end(text: str, at: int) -> int | None:
    """Behind the colon of the member at `at`; None where the text breaks off, -1 where this is no member."""
    if text[at] != '"':
        return -1
    end = value_end(text, at)
    if end is None:
        return None
    end = skip_space(text, end)
    if end == len(text):
        return None
    return end + 1 if text[end] == ":" else -1


def _string(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
