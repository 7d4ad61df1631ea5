"""The parser that the formats with fixed openings share: find an opening, read what follows, go on behind it.

A format gives the reader of one opening. It says how far the text is a call, and whether it is known to be one: only
then is anything of it passed on, and from then on it stays one, however the text goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.output.tools.base import Call, Layout, Parsed, content_before, held_suffix
from engine.output.tools.scan import skip_space, value_end


class State(Enum):
    WHOLE = "whole"  # the call is complete
    OPEN = "open"  # the text ends within a call whose name is known
    UNDECIDED = "undecided"  # the text ends before it is known whether this is a call
    TEXT = "text"  # no call after all


@dataclass(frozen=True)
class Reading:
    """What stands behind an opening: `calls` that are whole, up to `end`, and the one that the text breaks off in."""

    state: State
    calls: tuple[Call, ...] = ()
    open_call: Call | None = None
    end: int = 0


UNDECIDED = Reading(State.UNDECIDED)
TEXT = Reading(State.TEXT)


def whole(call: Call, end: int) -> Reading:
    return Reading(State.WHOLE, (call,), end=end)


def still_open(call: Call) -> Reading:
    return Reading(State.OPEN, open_call=call)


def parse_calls(
    text: str,
    opening: re.Pattern[str],
    read: Callable[[str, int], Reading],
    *,
    held: Sequence[str],
    layout: Layout,
    partial: bool,
) -> Parsed:
    """Content and calls of `text`, as `ToolFormat.parse` promises.

    `read` gets the place where a match of `opening` begins. The beginnings of `held` at the end of the text may still
    become something that is no content.
    """
    content: list[str] = []
    calls: list[Call] = []
    segment = search = 0  # where the running content begins, and where to look for the next call
    while start := opening.search(text, search):
        reading = read(text, start.start())
        given_up = reading.state is State.UNDECIDED and not partial
        if reading.state is State.TEXT or (given_up and not reading.calls):
            search = start.end()
            continue
        content.append(content_before(text[segment : start.start()], first=not calls, before=layout.before))
        calls += reading.calls
        if reading.state is not State.WHOLE and not given_up:
            return Parsed("".join(content), tuple(calls), open_call=reading.open_call)
        segment = search = reading.end
    content.append(_tail(text[segment:], held, layout, first=not calls, partial=partial))
    return Parsed("".join(content), tuple(calls))


def read_list(
    text: str, start: int, separator: str, read_one: Callable[[str, int], Reading], *, close: str = ""
) -> Reading:
    """One call after another with `separator` between them, and `close` behind the last if the format has one."""
    calls: tuple[Call, ...] = ()
    at = end = start
    while True:
        one = read_one(text, skip_space(text, at))
        if one.state is State.TEXT and calls:
            return Reading(State.WHOLE, calls, end=end)
        if one.state is not State.WHOLE:
            return Reading(one.state, calls, one.open_call, end)
        calls += one.calls
        end = one.end
        at = skip_space(text, end)
        if at == len(text):
            return Reading(State.UNDECIDED, calls, end=end)
        if close and text[at] == close:
            return Reading(State.WHOLE, calls, end=at + 1)
        if text[at] != separator:
            return Reading(State.WHOLE, calls, end=end)
        at += 1


def read_arguments(text: str, start: int, name: str) -> Reading:
    """A call of which only the arguments are left to read: a JSON object, which ends with its own brace."""
    if start == len(text):
        return UNDECIDED
    if text[start] != "{":
        return TEXT
    end = value_end(text, start)
    return still_open(Call(name, text[start:])) if end is None else whole(Call(name, text[start:end]), end)


def close_with(reading: Reading, text: str, *ends: str) -> Reading:
    """A whole call with the texts that close it, of which a model may leave out any. It is open until then."""
    if reading.state is not State.WHOLE:
        return reading
    at = reading.end
    for end in ends:
        tag = skip_space(text, at)
        if text.startswith(end, tag):
            at = tag + len(end)
        elif end.startswith(text[tag : tag + len(end)]):
            return still_open(reading.calls[-1])
    return Reading(State.WHOLE, reading.calls, end=at)


def skip_over(reading: Reading, text: str, end: str) -> Reading:
    """A whole call with `end`, if it is there; it isn't needed."""
    tag = skip_space(text, reading.end)
    if reading.state is State.WHOLE and text.startswith(end, tag):
        return Reading(State.WHOLE, reading.calls, end=tag + len(end))
    return reading


def _tail(text: str, held: Sequence[str], layout: Layout, *, first: bool, partial: bool) -> str:
    if not partial:
        return text if first or text.strip() else ""
    certain = text[: len(text) - max(held_suffix(text, word) for word in held)]
    return content_before(certain, first=first, before=layout.before)
