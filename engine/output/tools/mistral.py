"""The formats of Mistral's models, behind the token `[TOOL_CALLS]`.

    [TOOL_CALLS] [{"name": "run", "arguments": {}}]      until the tokenizers of 2024: one list of all calls
    [TOOL_CALLS]run[ARGS]{}                              since then: each call with a token of its own

Both are read; which one the grammar makes the model write follows its chat template.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Sequence
from typing import Any

from engine.output.tools.base import Layout, Parsed, ToolFormat
from engine.output.tools.object import ObjectReader
from engine.output.tools.reading import TEXT, UNDECIDED, Reading, parse_calls, read_arguments, read_list
from engine.output.tools.scan import skip_space
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice

TOOL_CALLS = "[TOOL_CALLS]"
ARGS = "[ARGS]"
CALL_ID = "[CALL_ID]"
_OPENING = re.compile(re.escape(TOOL_CALLS))
_NAMED = re.compile(r"\s*([A-Za-z0-9_.-]{1,64})(?:\[CALL_ID\]\w{0,64})?\[ARGS\]")
# The beginnings of that: each part may be cut, and what follows it may be missing.
_NAMED_BEGINNING = re.compile(r"\s*[A-Za-z0-9_.-]{0,64}(?:\[CALL_ID\]\w{0,64})?(?P<token>\[[A-Z_]*)?")
_ID_LENGTH = 9
_read_object = ObjectReader()


class MistralFormat(ToolFormat):
    """See the module. `space` stands between the token and the list, in the templates that have one there."""

    markers = (TOOL_CALLS, ARGS, CALL_ID)

    def __init__(self, *, named: bool = False, space: str = "") -> None:
        self._named = named
        listed = Layout(before="", begin=f"{TOOL_CALLS}{space}[", between=", ", end="]")
        self.layout = Layout(before="", between="") if named else listed

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        return f"{self._begin(name)}{arguments}{self._end}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        tags = [call_tag(self._begin(tool.name), json_body(tool), self._end) for tool in offered(tools, choice)]
        return answer_tag(tags, [TOOL_CALLS], choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        return parse_calls(text, _OPENING, _read, held=[TOOL_CALLS], layout=self.layout, partial=partial)

    def new_id(self) -> str:
        """Mistral's chat templates refuse ids that aren't nine letters and digits."""
        return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(_ID_LENGTH))

    @property
    def _end(self) -> str:
        return "" if self._named else "}"

    def _begin(self, name: str) -> str:
        return f"{TOOL_CALLS}{name}{ARGS}" if self._named else f'{{"name": {json.dumps(name)}, "arguments": '


def _read(text: str, start: int) -> Reading:
    at = start + len(TOOL_CALLS)
    first = skip_space(text, at)
    if text.startswith("[", first):
        return read_list(text, first + 1, ",", _read_object, close="]")
    header = _NAMED.match(text, at)
    if header is None:
        return UNDECIDED if _may_become_header(text[at:]) else TEXT
    return read_arguments(text, skip_space(text, header.end()), header[1])


def _may_become_header(text: str) -> bool:
    beginning = _NAMED_BEGINNING.fullmatch(text)
    if beginning is None:
        return False
    token = beginning["token"] or ""
    return ARGS.startswith(token) or CALL_ID.startswith(token)
