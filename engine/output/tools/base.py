"""What a tool-call format is: text for the model to read, a grammar for it to write by, and a parser.

Generated calls end a message, so that rendering what was parsed gives the generated text back byte for byte: the
grammar allows nothing after a call but another call. Between the content and a call, and between two calls, stands one
line feed that belongs to neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is JSON text, exactly as it was written; of an open call, as much as there is."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Parsed:
    """A message of the model. `open_call` is one that the text breaks off in; it is never repaired."""

    content: str
    calls: tuple[Call, ...] = ()
    open_call: Call | None = None

    @property
    def all_calls(self) -> tuple[Call, ...]:
        return self.calls if self.open_call is None else (*self.calls, self.open_call)


class ToolFormat(Protocol):
    """One way of writing tool calls in text."""

    def describe(self, tools: Sequence[Tool]) -> str:
        """System text that tells the model which tools there are and how to call them."""
        ...

    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        """One call as the model would have written it. `tools` are those of the request."""
        ...

    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        """The xgrammar structural tag of an answer under `choice`; None where nothing is constrained."""
        ...

    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        """Content and calls of `text`.

        With `partial` more text may follow: whatever could still turn out otherwise is left out, so that the
        parse of a longer text only ever adds to that of its beginning.
        """
        ...


def render_message(tool_format: ToolFormat, content: str, calls: Sequence[Call], tools: Sequence[Tool]) -> str:
    """Content and calls as one text: the inverse of `parse` for text that the grammar allows."""
    text = "\n".join(tool_format.render_call(call.name, call.arguments, tools) for call in calls)
    separator = "\n" if text and content.strip("\n") else ""
    return content + separator + text


def content_before(text: str, *, first: bool = True) -> str:
    """The content in front of a call, without the line feed that separates them.

    A blank beginning of a message is content as it is; blank text between two calls is none.
    """
    if not first and not text.strip():
        return ""
    return text.removesuffix("\n") if text.strip("\n") else text


def held_suffix(text: str, word: str) -> int:
    """The length of the longest end of `text` that is a proper beginning of `word`."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if word.startswith(text[-length:]):
            return length
    return 0


def json_body(tool: Tool) -> dict[str, Any]:
    """The format of an arguments object. Bounded white space, or a model may write it without end."""
    schema = dict(tool.parameters)
    if not schema.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}:
        schema["type"] = "object"  # without it any JSON value would do
    return {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 2}


def offered(tools: Sequence[Tool], choice: ToolChoice) -> Sequence[Tool]:
    """The tools that may be called under `choice`."""
    match choice.mode:
        case ChoiceMode.NONE:
            return ()
        case ChoiceMode.NAMED:
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return tools


def answer_tag(
    tags: Sequence[Mapping[str, Any]], triggers: Sequence[str], choice: ToolChoice, parallel: bool
) -> dict[str, Any] | None:
    """The structural tag of a whole answer from the `tag` of each call.

    Free text can't contain a trigger: after one at the beginning of a line only its call can follow.
    """
    if not tags:
        return None
    calls = {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": not parallel or choice.mode is ChoiceMode.NAMED,
    }
    if choice.forced:
        return {"type": "structural_tag", "format": calls}
    text = {"type": "any_text", "excludes": list(triggers)}
    line_feed = {"type": "const_string", "value": "\n"}
    answer = [calls, {"type": "sequence", "elements": [text, line_feed, calls]}, text]
    return {"type": "structural_tag", "format": {"type": "or", "elements": answer}}
