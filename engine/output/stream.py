"""A model's text as OpenAI deltas.

Every piece of text is added to what came before, the whole is parsed again, and the difference to the last parse is
what is sent. So the deltas don't depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.output.reasoning import Reasoning
from engine.output.tools.base import Call, Parsed, ToolFormat, new_call_id
from engine.output.tools.tool import Tool


@dataclass(frozen=True)
class ToolDelta:
    """A piece of one call. The first of a call has its id and name, and no arguments."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None

    def as_openai(self) -> dict[str, Any]:
        if self.id is None:
            return {"index": self.index, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class Delta:
    """One step of a message: reasoning, content or a piece of a call, never two of them."""

    content: str | None = None
    tool: ToolDelta | None = None
    reasoning: str | None = None

    def as_openai(self) -> dict[str, Any]:
        if self.tool is not None:
            return {"tool_calls": [self.tool.as_openai()]}
        if self.reasoning is not None:
            return {"reasoning_content": self.reasoning}
        return {"content": self.content}


class MessageParser:
    """Reasoning, content and calls of a whole text or of its beginning. Without a format all text is content.

    `inside`: the prompt has begun the reasoning already.
    """

    def __init__(
        self,
        tool_format: ToolFormat | None,
        tools: Sequence[Tool] = (),
        *,
        reasoning: Reasoning | None = None,
        inside: bool = False,
    ) -> None:
        self._format = tool_format if tools else None
        self._tools = tools
        self._reasoning = reasoning
        self._inside = inside

    def parse(self, text: str, *, partial: bool = False) -> Parsed:
        """With `partial` more may follow, and the parse of a longer text only ever adds to this one."""
        if self._reasoning is None:
            return self._answer(text, partial)
        split = self._reasoning.split(text, inside=self._inside, partial=partial)
        return replace(self._answer(split.rest, partial), reasoning=split.reasoning)

    def _answer(self, text: str, partial: bool) -> Parsed:
        return Parsed(text) if self._format is None else self._format.parse(text, self._tools, partial=partial)


class ChatStream:
    """Turns pieces of a message into deltas. The arguments are those of `MessageParser`."""

    def __init__(
        self,
        tool_format: ToolFormat | None,
        tools: Sequence[Tool] = (),
        *,
        reasoning: Reasoning | None = None,
        inside: bool = False,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._parser = MessageParser(tool_format, tools, reasoning=reasoning, inside=inside)
        self._new_id = new_id or (new_call_id if tool_format is None else tool_format.new_id)
        self._text = ""
        self._sent: list[int] = []  # per call, how many characters of its arguments
        self.call_ids: list[str] = []
        self.parsed = Parsed("")

    @property
    def text(self) -> str:
        """Everything that was pushed."""
        return self._text

    def push(self, text: str) -> list[Delta]:
        """The deltas that became certain with this piece."""
        self._text += text
        return self._advance(partial=True)

    def finish(self) -> list[Delta]:
        """The deltas of what was held back. A call that the text breaks off in stays as it is."""
        return self._advance(partial=False)

    def _advance(self, *, partial: bool) -> list[Delta]:
        before = self.parsed
        self.parsed = self._parser.parse(self._text, partial=partial)
        deltas = []
        if reasoning := self.parsed.reasoning[len(before.reasoning) :]:
            deltas.append(Delta(reasoning=reasoning))
        if content := self.parsed.content[len(before.content) :]:
            deltas.append(Delta(content=content))
        for index, call in enumerate(self.parsed.all_calls):
            deltas += [Delta(tool=piece) for piece in self._pieces(index, call)]
        return deltas

    def _pieces(self, index: int, call: Call) -> list[ToolDelta]:
        pieces = []
        if index == len(self._sent):
            self._sent.append(0)
            self.call_ids.append(self._new_id())
            pieces.append(ToolDelta(index, "", self.call_ids[index], call.name))
        if arguments := call.arguments[self._sent[index] :]:
            self._sent[index] += len(arguments)
            pieces.append(ToolDelta(index, arguments))
        return pieces
