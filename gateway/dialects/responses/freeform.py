"""Custom tools: the client sees plain text, the model writes it as `{"input": "…"}`.

When the call comes back in the history, the model's own spelling has to be found again. Its beginning is noted at the
end of the item's id, which clients send back; strings are then escaped the way most models do, only where JSON must.
A model that ignores the schema and writes the bare text is understood too.
"""

from __future__ import annotations

import json
import re
from enum import Enum

HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
HEAD_ROOM = 64
"""After so many characters without the head there is none."""
CONTENT = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
ITEM_ID = re.compile(r"ctc_[0-9a-f]+_[0-9]+([cr]?)")


class Style(Enum):
    """How the model wrote the call; the value ends the item's id."""

    SPACED = ""
    COMPACT = "c"
    RAW = "r"


def head_style(arguments: str, whole: bool) -> Style | None:
    """None while it can't be told yet; `whole`: nothing more will come."""
    head = HEAD.match(arguments)
    if head:
        return Style.COMPACT if head.group() == '{"input":"' else Style.SPACED
    written = arguments.lstrip()
    headless = len(arguments) > HEAD_ROOM or (written != "" and not written.startswith("{"))
    return Style.RAW if whole or headless else None


def arguments_of(text: str, item_id: object) -> str:
    """The model's arguments for a custom call with this input and item id."""
    known = ITEM_ID.fullmatch(item_id) if isinstance(item_id, str) else None
    style = Style(known.group(1)) if known else Style.SPACED
    if style is Style.RAW:
        return text
    space = "" if style is Style.COMPACT else " "
    return f'{{"input":{space}{json.dumps(text, ensure_ascii=False)}}}'


class InputReader:
    """The value of `input`, piece by piece as the arguments stream."""

    def __init__(self, style: Style) -> None:
        self._raw = style is Style.RAW
        self._in_head = not self._raw
        self._waiting = ""
        self.ended = False

    def read(self, arguments: str) -> str:
        if self._raw or self.ended:
            return "" if self.ended else arguments
        self._waiting += arguments
        if self._in_head:
            head = HEAD.match(self._waiting)
            if head is None:
                return ""
            self._waiting = self._waiting[head.end() :]
            self._in_head = False
        return self._content()

    def _content(self) -> str:
        content = CONTENT.match(self._waiting)
        assert content is not None
        self._waiting = self._waiting[content.end() :]
        self.ended = self._waiting.startswith('"')
        return ESCAPE.sub(_unescape, content.group())


def _unescape(escape: re.Match[str]) -> str:
    code, plain = escape.groups()
    return chr(int(code, 16)) if code else PLAIN.get(plain, plain)
