"""How a model speaks: its tool calls and its reasoning, as its chat template lays them down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.output.reasoning import Reasoning, Room, reasoning_for
from engine.output.stream import ChatStream, MessageParser
from engine.output.tools import format_for
from engine.output.tools.base import ToolFormat
from engine.output.tools.tool import Tool


@dataclass(frozen=True)
class Dialect:
    tools: ToolFormat
    reasoning: Reasoning | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        """What may be a special token, and is text all the same: a call or reasoning begins or ends with it."""
        return (*self.tools.markers, *(self.reasoning.markers if self.reasoning else ()))

    def begun(self, prompt: str) -> bool:
        """Whether an answer to `prompt` starts within reasoning."""
        return self.reasoning is not None and self.reasoning.begun_by(prompt)

    def unfinished(self, text: str, begun: bool) -> bool:
        """Whether an answer breaks off within its reasoning."""
        return self.reasoning is not None and self.reasoning.unfinished(text, inside=begun)

    def constrained(self, tag: dict[str, Any], begun: bool) -> dict[str, Any]:
        """A structural tag for the answer with room for the reasoning in front of it."""
        return self.reasoning.constrain(tag, inside=begun) if self.reasoning else tag

    def room(self, prompt: str) -> Room | None:
        """The reasoning that may stand in front of an answer to `prompt`, whatever that must be."""
        return self.reasoning.room(prompt) if self.reasoning else None

    def parser(self, tools: Sequence[Tool], begun: bool) -> MessageParser:
        return MessageParser(self.tools, tools, reasoning=self.reasoning, inside=begun)

    def stream(self, tools: Sequence[Tool], begun: bool) -> ChatStream:
        return ChatStream(self.tools, tools, reasoning=self.reasoning, inside=begun)


def dialect_of(template: str) -> Dialect:
    return Dialect(format_for(template), reasoning_for(template))
