"""The format of Llama 3: the message is a JSON object with `name` and `parameters`, `<|python_tag|>` may lead it in.

Nothing marks the object as a call, so only one that stands at the beginning of a line, calls a tool of the request
and has no other keys in front is one. The models' chat templates refuse a message with several calls, so the grammar
allows one; several that a model writes nevertheless are read, with `;` between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial as bind
from typing import Any

from engine.output.tools.base import Layout, Parsed, ToolFormat
from engine.output.tools.object import ARGUMENTS, ObjectReader
from engine.output.tools.reading import Reading, parse_calls, read_list
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice

PYTHON_TAG = "<|python_tag|>"
# A brace at the beginning of a line. Written so that every match begins with a literal, which is searched fast.
_OPENING = re.compile(r"\{(?<![^\n]\{)|<\|python_tag\|>\{")


class LlamaFormat(ToolFormat):
    """See the module."""

    layout = Layout(single=True)
    markers = (PYTHON_TAG,)

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{_begin(name)}{arguments}}}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        callable_tools = offered(tools, choice)
        tags = [call_tag(_begin(tool.name), json_body(tool), "}") for tool in callable_tools]
        # Of the tools' names only: an answer may well hold other objects with a name.
        triggers = [f'{{"name":{space}"{tool.name}"' for tool in callable_tools for space in ("", " ")]
        return answer_tag(tags, triggers, choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        read_one = ObjectReader(("parameters", ARGUMENTS), frozenset(tool.name for tool in tools))
        read = bind(_read, read_one=read_one)
        return parse_calls(text, _OPENING, read, held=[PYTHON_TAG + "{"], layout=self.layout, partial=partial)


def _begin(name: str) -> str:
    return f'{{"name": {json.dumps(name)}, "parameters": '


def _read(text: str, start: int, *, read_one: ObjectReader) -> Reading:
    at = start + len(PYTHON_TAG) if text.startswith(PYTHON_TAG, start) else start
    return read_list(text, at, ";", read_one)
