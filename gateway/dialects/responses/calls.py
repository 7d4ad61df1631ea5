"""Tool calls of an answer: function calls, and custom calls whose input is taken out of the arguments.

A call's item is opened as soon as it can be named: with the function's name, and for custom tools with the first
characters of the arguments, which say how the model writes them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from gateway.dialects.responses.delta import CallPiece
from gateway.dialects.responses.freeform import InputReader, Style, head_style
from gateway.dialects.responses.items import Event, Item
from gateway.dialects.responses.names import Kind, Names, Origin


class CallItem(Item):
    def __init__(self, item_id: str, index: int, call_id: str, tool: Origin) -> None:
        super().__init__(item_id, index)
        self._pieces: list[str] = []
        self._heading = {"call_id": call_id, "name": tool.name}
        if tool.namespace is not None:
            self._heading["namespace"] = tool.namespace

    @abstractmethod
    def write(self, arguments: str) -> list[Event]:
        """The next piece of what the model wrote as arguments."""

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class FunctionCall(CallItem):
    def json(self) -> dict[str, Any]:
        kind = {"id": self.id, "type": "function_call", "status": self.status.value}
        return kind | self._heading | {"arguments": self.text}

    def write(self, arguments: str) -> list[Event]:
        if not arguments:
            return []
        self._pieces.append(arguments)
        return [self.at("function_call_arguments.delta", delta=arguments)]

    def settle(self) -> list[Event]:
        return [self.at("function_call_arguments.done", name=self._heading["name"], arguments=self.text)]

    @property
    def is_whole(self) -> bool:
        text = self.text
        try:
            return text.rstrip().endswith("}") and isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False


class CustomCall(CallItem):
    def __init__(self, item_id: str, index: int, call_id: str, tool: Origin, style: Style) -> None:
        super().__init__(item_id + style.value, index, call_id, tool)
        self._input = InputReader(style)

    def json(self) -> dict[str, Any]:
        kind = {"id": self.id, "type": "custom_tool_call", "status": self.status.value}
        return kind | self._heading | {"input": self.text}

    def write(self, arguments: str) -> list[Event]:
        text = self._input.read(arguments)
        if not text:
            return []
        self._pieces.append(text)
        return [self.at("custom_tool_call_input.delta", delta=text)]

    def settle(self) -> list[Event]:
        return [self.at("custom_tool_call_input.done", input=self.text)]

    @property
    def is_whole(self) -> bool:
        return self._input.ended


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call's item would stand in the output."""

    unique: str
    index: int
    call_id: str


class Call:
    """One of the upstream's calls; `item` is None until it can be named."""

    def __init__(self) -> None:
        self.call_id = ""
        """The upstream's, which may be missing or used twice."""
        self.name = ""
        self.item: CallItem | None = None
        self._waiting = ""

    def hear(self, piece: CallPiece) -> list[Event]:
        """Arguments wait while there is no item."""
        self.call_id = self.call_id or piece.call_id
        self.name = self.name or piece.name
        if self.item is None:
            self._waiting += piece.arguments
            return []
        return self.item.write(piece.arguments) if self.item.is_open else []

    def open(self, place: Place, names: Names, *, whole: bool) -> list[Event]:
        """The item's first events, or none while it can't be named. `whole`: nothing more will come."""
        if not (self.name or whole):
            return []
        tool = names.origin(self.name)
        if tool.kind is Kind.FUNCTION:
            self.item = FunctionCall(f"fc_{place.unique}", place.index, place.call_id, tool)
        else:
            style = head_style(self._waiting, whole)
            if style is None:
                return []
            self.item = CustomCall(f"ctc_{place.unique}", place.index, place.call_id, tool, style)
        return [*self.item.opened(), *self.item.write(self._waiting)]
