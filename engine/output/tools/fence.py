"""Sapwood's format for models that were trained on none: a fenced block whose info string is the tool's name.

Small models write fenced code well and JSON strings badly. So the body of a block is the JSON arguments object,
except for a tool whose parameters are exactly one required string: there the body is that string, raw.

    ```run_tests          ```write_function
    {}                    def add(a, b):
    ```                       return a + b
                          ```

The body ends at the first later line that is the fence alone; a body with such a line gets a longer fence.

Enforced of a raw string's schema: `enum`, `maxLength`, and a `pattern` that is `^` and a literal beginning. Other
patterns, `minLength` and `format` are not. The body of a JSON tool is held to its whole schema, as far as xgrammar is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.output.tools.base import Call, Parsed, ToolFormat, content_before
from engine.output.tools.tags import answer_tag, call_tag, json_body, offered
from engine.output.tools.tool import Tool, ToolChoice

FENCE = "```"
_FORCED_BEGINNING = re.compile(r"\^((?:\\[^a-zA-Z0-9]|[^\\^$.|?*+()\[\]{}])+)(?:(?:\[\\s\\S\]|\.)\*)?")


class FenceFormat(ToolFormat):
    """See the module. A fenced block with any other info string is content."""

    def describe(self, tools: Sequence[Tool]) -> str:
        intro = "You can use tools. To use one, write a block that opens with its name, as shown here."
        return "\n\n".join([intro, *(_describe(tool) for tool in tools)])

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        prop = next((raw_property(tool) for tool in tools if tool.name == name), None)
        body = _raw_body(prop, arguments)
        fence = FENCE
        while _closing(fence, partial=False).search(body):
            fence += "`"
        return f"{fence}{name}\n{body}\n{fence}"

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        callable_tools = offered(tools, choice)
        # Without the line feed: it could else be taken for the one that ends the content.
        triggers = [f"{FENCE}{tool.name}" for tool in callable_tools]
        return answer_tag([_tag(tool) for tool in callable_tools], triggers, choice, parallel, self.layout)

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        opening = _opening(tools)
        content: list[str] = []
        calls: list[Call] = []
        at = 0
        while start := _next_opening(text, at, opening):
            content.append(content_before(text[at : start.start()], first=not calls))
            fence, name = start.groups()
            prop = next(raw_property(tool) for tool in tools if tool.name == name)
            body, end = _body(text, start.end(), fence, raw=prop is not None, partial=partial)
            call = Call(name, _arguments(prop, body, whole=end is not None))
            if end is None:
                return Parsed("".join(content), tuple(calls), open_call=call)
            calls.append(call)
            at = end
        tail = text[at:]
        if partial:
            tail = tail[: len(tail) - _held_opening(tail, tools, line_start=at == 0)]
            tail = content_before(tail, first=not calls)
        elif calls and not tail.strip():
            tail = ""
        return Parsed("".join([*content, tail]), tuple(calls))


def raw_property(tool: Tool) -> str | None:
    """The name of the one required string that is a tool's whole input, or None for a tool that takes JSON."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping) or len(properties) != 1:
        return None
    name, schema = next(iter(properties.items()))
    required = tool.parameters.get("required")
    is_string = isinstance(schema, Mapping) and schema.get("type") == "string"
    return str(name) if is_string and required == [name] else None


def forced_beginning(schema: Mapping[str, Any]) -> str:
    """The literal text that a string's `pattern` (`^` and an escaped literal) makes it begin with, or nothing."""
    pattern = schema.get("pattern")
    match = _FORCED_BEGINNING.fullmatch(pattern) if isinstance(pattern, str) else None
    literal = re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL) if match else ""
    return "" if "\n" + FENCE in literal else literal


def _tag(tool: Tool) -> dict[str, Any]:
    begin, end = f"{FENCE}{tool.name}\n", f"\n{FENCE}"
    prop = raw_property(tool)
    if prop is None:
        return call_tag(begin, json_body(tool), end)
    schema = tool.parameters["properties"][prop]
    literal = forced_beginning(schema)
    return call_tag(begin + literal, _raw_content(schema, literal), end)


def _raw_content(schema: Mapping[str, Any], literal: str) -> dict[str, Any]:
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        rests = [value.removeprefix(literal) for value in values if value.startswith(literal)]
        return {"type": "or", "elements": [{"type": "const_string", "value": rest} for rest in rests]}
    text: dict[str, Any] = {"type": "any_text"}
    longest = schema.get("maxLength")
    if isinstance(longest, int) and longest >= len(literal):
        text["max_chars"] = longest - len(literal)
    return text


def _raw_body(prop: str | None, arguments: str) -> str:
    """What stands between the fences for `arguments`; the JSON text itself where it isn't the one string alone."""
    if prop is None:
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict) and list(value) == [prop] and isinstance(value[prop], str):
        return str(value[prop])
    return arguments


def _arguments(prop: str | None, body: str, *, whole: bool) -> str:
    """The JSON arguments of a body; of one that isn't whole, their beginning."""
    if prop is not None:
        text = json.dumps({prop: body}, ensure_ascii=False)
        return text if whole else text[:-2]
    if body.strip():
        return body
    return "{}" if whole else ""


def _opening(tools: Sequence[Tool]) -> re.Pattern[str]:
    names = "|".join(re.escape(tool.name) for tool in tools) or r"(?!)"
    return re.compile(rf"^(`{{3,}})({names})\n", re.MULTILINE)


def _next_opening(text: str, at: int, opening: re.Pattern[str]) -> re.Match[str] | None:
    """The first call from `at` on. Most text has no fence, and looking for just that is fast."""
    fence = text.find(FENCE, at)
    return opening.search(text, fence) if fence >= 0 else None


def _closing(fence: str, *, partial: bool) -> re.Pattern[str]:
    """The line that ends a body. At the very end of a text that goes on it may still be a longer line."""
    return re.compile(rf"\n{fence}(?=\n)" if partial else rf"\n{fence}(?=\n|\Z)")


def _body(text: str, start: int, fence: str, *, raw: bool, partial: bool) -> tuple[str, int | None]:
    """The body that begins at `start`, and where its closing fence ends: None if the text breaks off first.

    An empty JSON body may be closed on the line after the opening; a raw one needs its own line, or it could not
    itself begin with a fence.
    """
    begin = start if raw else start - 1
    if closing := _closing(fence, partial=partial).search(text, begin):
        return text[start : closing.start()], closing.end()
    body = text[begin:]
    if partial:
        body = re.sub(rf"\n`{{0,{len(fence)}}}\Z", "", body)
    return body[start - begin :], None


def _held_opening(tail: str, tools: Sequence[Tool], *, line_start: bool) -> int:
    """The length of the last line, if it can still become the opening of a call."""
    _, line_feed, line = tail.rpartition("\n")
    if not line or not (line_feed or line_start):
        return 0
    name = line.lstrip("`")
    ticks = len(line) - len(name)
    if not name:
        return ticks
    return len(line) if ticks >= 3 and any(tool.name.startswith(name) for tool in tools) else 0


def _describe(tool: Tool) -> str:
    prop = raw_property(tool)
    summary = " ".join(tool.description.split())
    head = f"{tool.name}: {summary}" if summary else tool.name
    body = _json_example(tool) if prop is None else f"<{_about(prop, tool.parameters['properties'][prop])}>"
    return f"{head}\n{FENCE}{tool.name}\n{body}\n{FENCE}"


def _json_example(tool: Tool) -> str:
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "{}"
    required = tool.parameters.get("required") or ()
    members = [
        f'"{name}": <{_about(None, schema)}{"" if name in required else ", optional"}>'
        for name, schema in properties.items()
    ]
    return "{" + ", ".join(members) + "}"


def _about(name: str | None, schema: object) -> str:
    """A property in a few words: its description, else its name, its type or the values it may have."""
    if not isinstance(schema, Mapping):
        return name or "any"
    if description := schema.get("description"):
        return " ".join(str(description).split())
    if values := schema.get("enum"):
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
    return name or str(schema.get("type", "any"))
