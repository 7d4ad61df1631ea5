"""What a tool-call format is: text for the model to read, a grammar for it to write by, and a parser.

Generated calls end a message, so that rendering what was parsed gives the generated text back byte for byte: the
grammar allows nothing after a call but another call. What stands between content, calls and the end is the format's
`Layout`, and belongs to none of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from engine.output.tools.tool import Tool, ToolChoice


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
    reasoning: str = ""

    @property
    def all_calls(self) -> tuple[Call, ...]:
        return self.calls if self.open_call is None else (*self.calls, self.open_call)


@dataclass(frozen=True)
class Layout:
    """Where calls stand in a message: content, `before`, `begin`, calls with `between` between them, `end`.

    `single`: the model was trained on one call a message, and its chat template refuses more.
    """

    before: str = "\n"
    begin: str = ""
    between: str = "\n"
    end: str = ""
    single: bool = False


class ToolFormat(ABC):
    """One way of writing tool calls in text."""

    layout = Layout()
    # Text of the format that some vocabularies hold as special tokens: it has to be let through to the parser.
    markers: tuple[str, ...] = ()

    @abstractmethod
    def render_call(self, name: str, arguments: str, tools: Sequence[Tool] = ()) -> str:
        """One call as the model would have written it. `tools` are those of the request."""

    @abstractmethod
    def structural_tag(self, tools: Sequence[Tool], choice: ToolChoice, parallel: bool = True) -> dict[str, Any] | None:
        """The xgrammar structural tag of an answer under `choice`; None where nothing is constrained."""

    @abstractmethod
    def parse(self, text: str, tools: Sequence[Tool], *, partial: bool = False) -> Parsed:
        """Content and calls of `text`.

        With `partial` more text may follow: whatever could still turn out otherwise is left out, so that the
        parse of a longer text only ever adds to that of its beginning.
        """

    def describe(self, tools: Sequence[Tool]) -> str:
        """System text that tells the model which tools there are and how to call them."""
        lines = "\n".join(json.dumps(tool.as_openai(), ensure_ascii=False) for tool in tools)
        example = render_message(self, "", [Call("<function-name>", "<args-json-object>")], tools)
        return (
            "You may call one or more of these functions:\n"
            f"<tools>\n{lines}\n</tools>\n"
            f"To call one, write its name and arguments as JSON:\n{example}"
        )

    def new_id(self) -> str:
        """An id for a call, as the model's chat template accepts it in the history."""
        return new_call_id()


def new_call_id() -> str:
    return f"call_{uuid4().hex[:24]}"


def render_message(tool_format: ToolFormat, content: str, calls: Sequence[Call], tools: Sequence[Tool]) -> str:
    """Content and calls as one text: the inverse of `parse` for text that the grammar allows."""
    if not calls:
        return content
    layout = tool_format.layout
    text = layout.between.join(tool_format.render_call(call.name, call.arguments, tools) for call in calls)
    separator = layout.before if content.strip("\n") else ""
    return f"{content}{separator}{layout.begin}{text}{layout.end}"


def content_before(text: str, *, first: bool = True, before: str = "\n") -> str:
    """The content in front of a call, without the line feed that separates them.

    A blank beginning of a message is content as it is; blank text between two calls is none.
    """
    if not first and not text.strip():
        return ""
    return text.removesuffix(before) if text.strip("\n") else text


def held_suffix(text: str, word: str) -> int:
    """The length of the longest end of `text` that is a proper beginning of `word`."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if word.startswith(text[-length:]):
            return length
    return 0
