"""Where two prompts part: the first block, the field in it, and the character in that field's text.

Works on canonical blocks, so what no model sees is no difference. Fields of a message are gone through in the
order in which templates print them. A path looks as the client wrote it: `messages[3].content[0].text`,
`tools[2].function.description`, `messages[5].tool_calls[0].function.arguments`. It ends at a call's arguments, whose
keys are the model's words: no path quotes what was said.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from gateway.canonical.chain import Chain
from gateway.canonical.explain_text import byte_offset, common_length
from gateway.canonical.form import encode
from gateway.dialects.base import Json

_FIRST_FIELDS = ("role", "name", "reasoning_content", "reasoning", "thinking", "type", "content", "text", "function")
_RANK = {name: rank for rank, name in enumerate(_FIRST_FIELDS)}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]{1,64}")
_MISSING = object()


class Part(StrEnum):
    ROOT = "root"
    """Model and options."""
    TOOLS = "tools"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first one. `old` and `new` are the whole texts of the field, empty where it is missing."""

    part: Part
    index: int
    """Of the message or the tool; 0 for the root."""
    role: str
    """Of the old message; empty for other parts."""
    path: str
    old: str
    new: str

    @property
    def at(self) -> int:
        """In characters."""
        return common_length(self.old, self.new)

    @property
    def offset(self) -> int:
        """In bytes of the field's text as UTF-8."""
        return byte_offset(self.old, self.at)


@dataclass(frozen=True, slots=True)
class Parts:
    root: bytes
    tools: tuple[bytes, ...]
    messages: tuple[bytes, ...]
    head: int
    """How many leading messages are system messages."""


def parts_of(chain: Chain) -> Parts:
    first = chain.first_message
    tools = tuple(chain.blocks[1].split(b"\n")) if first > 1 else ()
    return Parts(chain.blocks[0], tools, chain.blocks[first:], chain.head - first + 1)


def locate(old: Parts, new: Parts) -> Difference:
    """The first difference of two prompts of which neither begins with the other."""
    if old.root != new.root:
        return _in_root(json.loads(old.root), json.loads(new.root))
    if old.tools != new.tools:
        return _in_tools(old.tools, new.tools)
    index = agreeing(old.messages, new.messages)
    one, other = json.loads(old.messages[index]), json.loads(new.messages[index])
    role = role_of(one)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return _in_prompt(old.messages[:index], index, one, other)
    if role != role_of(other) and {**one, "role": 0} != {**other, "role": 0}:
        return Difference(Part.MESSAGE, index, role, f"messages[{index}]", text_of(one), text_of(other))
    path, before, after = _descend(f"messages[{index}]", one, other)
    return Difference(Part.MESSAGE, index, role, path, text_of(before), text_of(after))


def agreeing(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> int:
    """How many leading blocks are equal."""
    pairs = zip(old, new, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def role_of(message: Json) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""


def text_of(value: Json) -> str:
    """A field as text: itself, the words of a message or a part of one, or its JSON."""
    if value is _MISSING:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inner = value.get("text", value.get("content", _MISSING))
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list) and all(isinstance(part, dict) and "text" in part for part in inner):
            return "\n".join(text_of(part) for part in inner)
    return encode(value).decode()


def _in_root(old: Json, new: Json) -> Difference:
    (_, model, options), (_, other_model, other_options) = old, new
    if model != other_model:
        return Difference(Part.ROOT, 0, "", "model", model, other_model)
    path, before, after = _descend("", options, other_options)
    return Difference(Part.ROOT, 0, "", path.lstrip("."), text_of(before), text_of(after))


def _in_tools(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> Difference:
    index = agreeing(old, new)
    one, other = (json.loads(tools[index]) if index < len(tools) else _MISSING for tools in (old, new))
    path = f"tools[{index}]"
    if one is _MISSING or other is _MISSING or tool_name(one) != tool_name(other):
        return Difference(Part.TOOLS, index, "", path, tool_name(one), tool_name(other))
    path, before, after = _descend(path, one, other)
    return Difference(Part.TOOLS, index, "", path, text_of(before), text_of(after))


def _in_prompt(earlier: tuple[bytes, ...], index: int, old: Json, new: Json) -> Difference:
    """Of a plain completion, whose blocks are pieces of one text: offsets count from the text's beginning."""
    if isinstance(old, str) and isinstance(new, str):
        before = "".join(json.loads(block) for block in earlier)
        return Difference(Part.MESSAGE, index, "", "prompt", before + old, before + new)
    return Difference(Part.MESSAGE, index, "", f"prompt[{index}]", text_of(old), text_of(new))


def tool_name(tool: Json) -> str:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else text_of(tool)


def _descend(path: str, old: Json, new: Json) -> tuple[str, Json, Json]:
    """Down to the first field that holds no more fields on both sides."""
    while True:
        if path.endswith(".function.arguments"):
            return path, old, new
        if path.endswith(".content") and isinstance(old, list) != isinstance(new, list):
            old, new = _part_by_part(old, new)
        if isinstance(old, dict) and isinstance(new, dict):
            name = next(name for name in _in_order(old, new) if _differ(_at(old, name), _at(new, name)))
            path, old, new = f"{path}.{_plain(name)}", _at(old, name), _at(new, name)
        elif isinstance(old, list) and isinstance(new, list):
            pairs = range(min(len(old), len(new)))
            index = next((each for each in pairs if _differ(old[each], new[each])), len(pairs))
            path, old, new = (
                f"{path}[{index}]",
                old[index] if index < len(old) else _MISSING,
                new[index] if index < len(new) else _MISSING,
            )
        else:
            return path, old, new


def _part_by_part(old: Json, new: Json) -> tuple[Json, Json]:
    """A text content that became a list of parts, or was one, as such a list."""
    one, other = ([{"type": "text", "text": each}] if isinstance(each, str) else each for each in (old, new))
    return (one, other) if _differ(one, other) else (old, new)


def _in_order(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    return sorted(old.keys() | new.keys(), key=lambda name: (_RANK.get(name, len(_RANK)), name))


def _at(value: dict[str, Json], name: str) -> Json:
    return value.get(name, _MISSING)


def _differ(old: Json, new: Json) -> bool:
    """By canonical bytes: to Python 1, 1.0 and true are equal."""
    if old is _MISSING or new is _MISSING:
        return old is not new
    return encode(old) != encode(new)


def _plain(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else "?"
