"""A model's text as OpenAI deltas.

Every piece of text is added to what came before, the whole is parsed again, and the difference to the last parse is
what is sent. So the deltas don't depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from engine.output.tools.base import Call, Parsed, ToolFormat
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
    """One step of a message: content or a piece of a call, never both."""

    content: str | None = None
    tool: ToolDelta | None = None

    def as_openai(self) -> dict[str, Any]:
        if self.tool is not None:
            return {"tool_calls": [self.tool.as_openai()]}
        return {"content": self.content}


def new_call_id() -> str:
    return f"call_{uuid4().hex[:24]}"


class ChatStream:
    """Turns pieces of a message into deltas. Without a format all text is content."""

    def __init__(
        self,
        tool_format: ToolFormat | None,
        tools: Sequence[Tool] = (),
        *,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._format = tool_format if tools else None
        self._tools = tools
        self._new_id = new_id
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
        sent = len(self.parsed.content)
        if self._format is None:
            self.parsed = Parsed(self._text)
        else:
            self.parsed = self._format.parse(self._text, self._tools, partial=partial)
        content = self.parsed.content[sent:]
        deltas = [Delta(content=content)] if content else []
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
