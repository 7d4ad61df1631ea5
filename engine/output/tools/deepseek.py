"""The formats of DeepSeek's models: calls between tokens of their own, in a section of theirs.

V3 and R1 write the kind of a tool, its name and the arguments in a fenced block; V3.1 just name and arguments:

    <｜tool▁call▁begin｜>function<｜tool▁sep｜>run          <｜tool▁call▁begin｜>run<｜tool▁sep｜>{}<｜tool▁call▁end｜>
    ```json
    {}
    ```<｜tool▁call▁end｜>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial as bind
from typing import Any

from engine.output.tools.base import Layout, Parsed, ToolFormat
from engine.output.tools.reading import TEXT, UNDECIDED, Reading, close_with, parse_calls, read_arguments, skip_over
from engine.output.tools.scan import skip_space
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice

CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
_FENCE = "```json\n"
_FENCE_END = "```"
# A call may come without its section: a second one does, and some answers of the models do.
_OPENING = re.compile(f"(?:{CALLS_BEGIN})?{CALL_BEGIN}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class DeepSeekFormat(ToolFormat):
    """See the module. `fenced`: as V3 and R1 write."""

    markers = (CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEPARATOR)

    def __init__(self, *, fenced: bool = False) -> None:
        self._fenced = fenced
        self.layout = Layout(before="", begin=CALLS_BEGIN, between="\n" if fenced else "", end=CALLS_END)

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{self._begin(name)}{arguments}{self._end}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        tags = [call_tag(self._begin(tool.name), json_body(tool), self._end) for tool in offered(tools, choice)]
        return answer_tag(tags, [CALLS_BEGIN, CALL_BEGIN], choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        read = bind(_read, fenced=self._fenced)
        held = [CALLS_BEGIN + CALL_BEGIN, CALL_BEGIN, CALLS_END]
        return parse_calls(text, _OPENING, read, held=held, layout=self.layout, partial=partial)

    @property
    def _end(self) -> str:
        return f"\n{_FENCE_END}{CALL_END}" if self._fenced else CALL_END

    def _begin(self, name: str) -> str:
        header = f"function{SEPARATOR}{name}\n{_FENCE}" if self._fenced else f"{name}{SEPARATOR}"
        return CALL_BEGIN + header


def _read(text: str, start: int, *, fenced: bool) -> Reading:
    opening = _OPENING.match(text, start)
    if opening is None:
        return TEXT
    name, at = _fenced_header(text, opening.end()) if fenced else _plain_header(text, opening.end())
    if at is None:
        return UNDECIDED
    if not name:
        return TEXT
    reading = read_arguments(text, skip_space(text, at), name)
    closed = close_with(reading, text, *([_FENCE_END] if fenced else []), CALL_END)
    return skip_over(closed, text, CALLS_END)


def _plain_header(text: str, at: int) -> tuple[str, int | None]:
    """The name, and where the arguments begin: None if the text breaks off. No name: this is no call."""
    name = _NAME.match(text, at)
    if name is None:
        return "", (at if at < len(text) else None)
    return _after(text, name.end(), SEPARATOR, name[0])


def _fenced_header(text: str, at: int) -> tuple[str, int | None]:
    _, at_name = _after(text, at, f"function{SEPARATOR}", "function")
    if at_name is None or at_name == at:
        return "", at_name
    name = _NAME.match(text, at_name)
    if name is None:
        return "", (at_name if at_name < len(text) else None)
    return _after(text, name.end(), f"\n{_FENCE}", name[0])


def _after(text: str, at: int, word: str, name: str) -> tuple[str, int | None]:
    """`name` and the place behind `word`; no name if something else stands there."""
    if text.startswith(word, at):
        return name, at + len(word)
    return "", (None if word.startswith(text[at : at + len(word)]) else at)
