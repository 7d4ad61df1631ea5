"""The format of Qwen3-Coder: a function with one element for each parameter, whose text isn't escaped.

    <tool_call>
    <function=edit>
    <parameter=path>
    a.py
    </parameter>
    </function>
    </tool_call>

What a value is depends on the schema, see `xml_values`. It ends at the first `</parameter>`, so that it can't contain
one. The line feed behind an opening and the one in front of a closing element belong to no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial as bind
from typing import Any

from engine.output.tools.base import Call, Parsed, ToolFormat, held_suffix
from engine.output.tools.hermes import CLOSE, OPEN
from engine.output.tools.reading import TEXT, UNDECIDED, Reading, close_with, parse_calls, skip_over, still_open, whole
from engine.output.tools.scan import skip_space
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice
from engine.output.tools.xml_values import is_text, json_value

FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"
_OPENING = re.compile(f"{OPEN}|{FUNCTION}")  # the models now and then leave out the outer element
_HEADER = re.compile(FUNCTION + r"([A-Za-z0-9_.-]{1,64})>")
_HEADER_BEGINNING = re.compile(FUNCTION + r"[A-Za-z0-9_.-]{0,64}")
_KEY = re.compile(PARAMETER + r"([^>\n]+)>\n?")


class QwenXmlFormat(ToolFormat):
    """See the module."""

    markers = (OPEN, CLOSE)

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{_begin(name)}{_rendered(arguments)}{_END}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        tags = [call_tag(_begin(tool.name), _body(tool), _END) for tool in offered(tools, choice)]
        return answer_tag(tags, [OPEN, FUNCTION], choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        read = bind(_read, schemas={tool.name: tool.parameters for tool in tools}, partial=partial)
        return parse_calls(text, _OPENING, read, held=[OPEN, FUNCTION, CLOSE], layout=self.layout, partial=partial)


_END = f"{FUNCTION_END}\n{CLOSE}"


def _begin(name: str) -> str:
    return f"{OPEN}\n{FUNCTION}{name}>\n"


def _body(tool: Tool) -> dict[str, Any]:
    """The elements of a tool's parameters. No value may hold what ends one; it costs the lengths of strings."""
    return {**json_body(tool), "style": "qwen_xml", "excludes": [PARAMETER_END]}


def _rendered(arguments: str) -> str:
    """The elements of an arguments object; text that is none as it is."""
    try:
        members = json.loads(arguments)
    except (ValueError, RecursionError):
        return f"{arguments}\n"
    if not isinstance(members, dict):
        return f"{arguments}\n"
    texts = ((key, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for key, v in members.items())
    return "".join(f"{PARAMETER}{key}>\n{text}\n{PARAMETER_END}\n" for key, text in texts)


def _read(text: str, start: int, *, schemas: Mapping[str, Mapping[str, Any]], partial: bool) -> Reading:
    at = skip_space(text, start + len(OPEN)) if text.startswith(OPEN, start) else start
    header = _HEADER.match(text, at)
    if header is None:
        rest = text[at:]
        return UNDECIDED if FUNCTION.startswith(rest) or _HEADER_BEGINNING.fullmatch(rest) else TEXT
    name = header[1]
    reader = _Parameters(text, header.end(), schemas.get(name, {}), partial)
    arguments, end = reader.read()
    if end is None:
        return still_open(Call(name, arguments))
    close = close_with if text.startswith(OPEN, start) else skip_over
    return close(whole(Call(name, arguments), end), text, CLOSE)


class _Parameters:
    """Turns the elements from `at` on into JSON, as far as it is certain."""

    def __init__(self, text: str, at: int, schema: Mapping[str, Any], partial: bool) -> None:
        self._text = text
        self._at = at
        self._schema = schema
        self._partial = partial
        self._json = "{"

    def read(self) -> tuple[str, int | None]:
        """The arguments, and where the function ends: None if the text breaks off first."""
        text = self._text
        while True:
            self._at = at = skip_space(text, self._at)
            if key := _KEY.match(text, at):
                if not self._parameter(key[1], key.end()):
                    return self._json, None
            elif text.startswith(FUNCTION_END, at):
                return self._json + "}", at + len(FUNCTION_END)
            elif FUNCTION_END.startswith(text[at:]) or _may_become_key(text[at:]):
                return self._json, None
            else:
                return self._json + "}", at  # what is no element ends the function

    def _parameter(self, key: str, start: int) -> bool:
        """Adds the parameter whose value begins at `start`; False if the text breaks off in it."""
        text = self._text
        begin = f"{'' if self._json == '{' else ', '}{json.dumps(key, ensure_ascii=False)}: "
        end = text.find(PARAMETER_END, start)
        if end >= 0:
            self._json += begin + json_value(text[start:end].removesuffix("\n"), key, self._schema)
            self._at = end + len(PARAMETER_END)
            return True
        if is_text(key, self._schema):
            value = text[start:]
            if self._partial:
                held = max(held_suffix(value, PARAMETER_END), held_suffix(value, "\n" + PARAMETER_END))
                value = value[: len(value) - held]
            self._json += begin + json.dumps(value, ensure_ascii=False)[:-1]
        return False


def _may_become_key(rest: str) -> bool:
    return PARAMETER.startswith(rest) or (rest.startswith(PARAMETER) and not re.search(r"[>\n]", rest))
