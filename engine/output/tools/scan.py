"""Spans in JSON text that may not be finished: where a value ends, read without building the value."""

from __future__ import annotations

import re

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MARKS = re.compile(r'["{}\[\]]')
_SCALAR = re.compile(r"[^\s,\"{}\[\]]+")
_SPACE = re.compile(r"\s*")


def skip_space(text: str, start: int) -> int:
    """The first place from `start` on that is no white space."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def value_end(text: str, start: int) -> int | None:
    """Where the JSON value that begins at `start` ends: `start` if none begins, None if the text breaks off first."""
    if start >= len(text):
        return None
    if text[start] == '"':
        match = _STRING.match(text, start)
        return match.end() if match else None
    if text[start] in "{[":
        return _nested_end(text, start)
    match = _SCALAR.match(text, start)
    if match is None:
        return start
    return match.end() if match.end() < len(text) else None  # a number at the very end may go on


def _nested_end(text: str, start: int) -> int | None:
    depth = 0
    at = start
    while mark := _MARKS.search(text, at):
        character = mark.group()
        if character == '"':
            string = _STRING.match(text, mark.start())
            if string is None:
                return None
            at = string.end()
            continue
        at = mark.end()
        depth += 1 if character in "{[" else -1
        if depth == 0:
            return at
    return None
