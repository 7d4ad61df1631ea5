"""The Hermes format: a JSON object with `name` and `arguments` between `<tool_call>` and `</tool_call>`.

Qwen and many fine-tunes are trained on it. The end of a call is found by reading its JSON, so that `</tool_call>`
inside a string ends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.output.tools.base import (
    Call,
    Parsed,
    answer_tag,
    content_before,
    held_suffix,
    json_body,
    offered,
)
from engine.output.tools.scan import skip_space, value_end
from engine.output.tools.tool import Tool, ToolChoice

OPEN = "<tool_call>"
CLOSE = "</tool_call>"


class _State(Enum):
    WHOLE = "whole"  # the call is complete
    OPEN = "open"  # the text ends within a call whose name is known
    UNDECIDED = "undecided"  # the text ends before it is known whether this is a call
    TEXT = "text"  # no call after all


@dataclass(frozen=True)
class _Reading:
    state: _State
    call: Call | None = None
    end: int = 0


class HermesFormat:
    """See the module. Text that follows `<tool_call>` without being a call is content."""

    def describe(self, tools: Sequence[Tool]) -> str:
        lines = "\n".join(json.dumps(tool.as_openai(), ensure_ascii=False) for tool in tools)
        example = '{"name": <function-name>, "arguments": <args-json-object>}'
        return (
            "You may call one or more of these functions:\n"
            f"<tools>\n{lines}\n</tools>\n"
            f"To call one, write its name and arguments as JSON:\n{OPEN}\n{example}\n{CLOSE}"
        )

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{_begin(name)}{arguments}{_END}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        tags = [
            {"type": "tag", "begin": _begin(tool.name), "content": json_body(tool), "end": _END}
            for tool in offered(tools, choice)
        ]
        return answer_tag(tags, [OPEN], choice, parallel)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        content: list[str] = []
        calls: list[Call] = []
        segment = search = 0  # where the running content begins, and where to look for the next call
        while (start := text.find(OPEN, search)) >= 0:
            reading = _read(text, start + len(OPEN))
            if reading.state is _State.TEXT or (reading.state is _State.UNDECIDED and not partial):
                search = start + len(OPEN)
                continue
            content.append(content_before(text[segment:start], first=not calls))
            if reading.state is not _State.WHOLE or reading.call is None:
                return Parsed("".join(content), tuple(calls), open_call=reading.call)
            calls.append(reading.call)
            segment = search = reading.end
        content.append(_tail(text[segment:], first=not calls, partial=partial))
        return Parsed("".join(content), tuple(calls))


_END = f"}}\n{CLOSE}"


def _begin(name: str) -> str:
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": '


def _tail(text: str, *, first: bool, partial: bool) -> str:
    if not partial:
        return text if first or text.strip() else ""
    certain = text[: len(text) - held_suffix(text, OPEN)]
    return content_before(certain, first=first)


def _read(text: str, start: int) -> _Reading:
    """The call whose JSON begins at `start`. Once its name and the start of its arguments are there, it is a call."""
    at = skip_space(text, start)
    if at == len(text):
        return _Reading(_State.UNDECIDED)
    if text[at] != "{":
        return _Reading(_State.TEXT)
    members: dict[str, str] = {}
    at += 1
    while True:
        at = skip_space(text, at)
        if at < len(text) and text[at] == ",":
            at = skip_space(text, at + 1)
        if at == len(text):
            return _broken_off(members)
        if text[at] == "}":
            return _closed(text, at + 1, members)
        colon = _key_end(text, at)
        if colon is None:
            return _broken_off(members)
        if colon < 0:
            return _spoilt(at, members)
        key = _string(text[at:colon].rstrip().removesuffix(":").rstrip())
        at = skip_space(text, colon)
        end = value_end(text, at)
        if end is None:
            if at < len(text):
                members.setdefault(key, text[at:] if key == "arguments" else "")
            return _broken_off(members)
        if end == at:
            return _spoilt(at, members)
        members.setdefault(key, text[at:end])  # of a repeated key the first counts: it may be sent already
        at = end


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


def _closed(text: str, end: int, members: dict[str, str]) -> _Reading:
    call = _call({"arguments": "{}", **members})
    if call is None:
        return _Reading(_State.TEXT)
    tag = skip_space(text, end)
    if text.startswith(CLOSE, tag):
        return _Reading(_State.WHOLE, call, tag + len(CLOSE))
    if CLOSE.startswith(text[tag:]):
        return _Reading(_State.OPEN, call)
    return _Reading(_State.WHOLE, call, end)


def _broken_off(members: dict[str, str]) -> _Reading:
    call = _call(members)
    return _Reading(_State.UNDECIDED) if call is None else _Reading(_State.OPEN, call)


def _spoilt(at: int, members: dict[str, str]) -> _Reading:
    """What is not JSON ends a call that was already seen, and shows that another never was one."""
    call = _call(members)
    return _Reading(_State.TEXT) if call is None else _Reading(_State.WHOLE, call, at)


def _call(members: dict[str, str]) -> Call | None:
    name = _string(members.get("name", ""))
    return Call(name, members["arguments"]) if name and "arguments" in members else None


def _string(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
