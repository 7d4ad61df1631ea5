"""The Hermes format: a JSON object with `name` and `arguments` between `<tool_call>` and `</tool_call>`.

Qwen and many fine-tunes are trained on it. The end of a call is found by reading its JSON, so that `</tool_call>`
inside a string ends nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from engine.output.tools.base import Parsed, ToolFormat
from engine.output.tools.object import ObjectReader
from engine.output.tools.reading import Reading, close_with, parse_calls
from engine.output.tools.scan import skip_space
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
_OPENING = re.compile(OPEN)
_END = f"}}\n{CLOSE}"
_read_object = ObjectReader()


class HermesFormat(ToolFormat):
    """See the module. Text that follows `<tool_call>` without being a call is content."""

    markers = (OPEN, CLOSE)

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{_begin(name)}{arguments}{_END}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        tags = [call_tag(_begin(tool.name), json_body(tool), _END) for tool in offered(tools, choice)]
        return answer_tag(tags, [OPEN], choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        return parse_calls(text, _OPENING, _read, held=[OPEN], layout=self.layout, partial=partial)


def _begin(name: str) -> str:
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": '


def _read(text: str, start: int) -> Reading:
    return close_with(_read_object(text, skip_space(text, start + len(OPEN))), text, CLOSE)
