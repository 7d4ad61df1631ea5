"""The items of an answer's output while they grow, and the events that tell of it.

An item's id says which answer it belongs to and where it stands in it. An event here is a type and its fields; the
answer numbers them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from gateway.dialects.responses.envelope import Status
from gateway.dialects.responses.reasoning import reasoning_item

Event = tuple[str, dict[str, Any]]


class Item(ABC):
    """One item: `opened`, then what the subclass is told, then `closed`."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index
        self.status = Status.IN_PROGRESS

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """The item as it is now."""

    @abstractmethod
    def settle(self) -> list[Event]:
        """What has to be said about the contents when they are complete."""

    def opened(self) -> list[Event]:
        return [("response.output_item.added", {"output_index": self.index, "item": self.json()})]

    def closed(self, status: Status) -> list[Event]:
        events = self.settle()
        self.status = status
        return [*events, ("response.output_item.done", {"output_index": self.index, "item": self.json()})]

    @property
    def is_whole(self) -> bool:
        """Another item may begin: nothing that matters can follow in this one."""
        return True

    @property
    def is_open(self) -> bool:
        return self.status is Status.IN_PROGRESS

    def at(self, kind: str, **fields: Any) -> Event:
        return f"response.{kind}", {"item_id": self.id, "output_index": self.index, **fields}


class Part:
    """One part of a message: text or a refusal."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def json(self) -> dict[str, Any]:
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": list(self.logprobs)}


class Message(Item):
    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self._parts: list[Part] = []

    def json(self) -> dict[str, Any]:
        content = [part.json() for part in self._parts]
        return {
            "id": self.id,
            "type": "message",
            "status": self.status.value,
            "role": "assistant",
            "content": content,
        }

    def say(self, kind: str, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> list[Event]:
        """`kind`: `output_text` or `refusal`. Empty text begins the part, no more."""
        events = self._turn_to(kind)
        if not text:
            return events
        part = self._parts[-1]
        part.pieces.append(text)
        part.logprobs += logprobs
        extra = {"logprobs": list(logprobs)} if kind == "output_text" else {}
        return [*events, self.at(f"{kind}.delta", content_index=len(self._parts) - 1, delta=text, **extra)]

    def _turn_to(self, kind: str) -> list[Event]:
        if self._parts and self._parts[-1].kind == kind:
            return []
        events = self.settle()
        self._parts.append(Part(kind))
        return [*events, self._part_event("content_part.added")]

    def settle(self) -> list[Event]:
        if not self._parts:
            return []
        part, index = self._parts[-1], len(self._parts) - 1
        said = {"refusal": part.text} if part.kind == "refusal" else {"text": part.text, "logprobs": part.logprobs}
        return [self.at(f"{part.kind}.done", content_index=index, **said), self._part_event("content_part.done")]

    def _part_event(self, kind: str) -> Event:
        return self.at(kind, content_index=len(self._parts) - 1, part=self._parts[-1].json())


class Reasoning(Item):
    def __init__(self, item_id: str, index: int, *, as_summary: bool, sealed: bool) -> None:
        super().__init__(item_id, index)
        self._as_summary = as_summary
        self._sealed = sealed
        self._pieces: list[str] = []
        self._stream = "reasoning_summary_text" if as_summary else "reasoning_text"
        self._place = {"summary_index": 0} if as_summary else {"content_index": 0}

    def json(self) -> dict[str, Any]:
        text, status = "".join(self._pieces), self.status.value
        return reasoning_item(self.id, text, as_summary=self._as_summary, sealed=self._sealed, status=status)

    def say(self, text: str) -> list[Event]:
        begun = [] if self._pieces else [self._part_event("added", "")]
        self._pieces.append(text)
        return [*begun, self.at(f"{self._stream}.delta", **self._place, delta=text)]

    def settle(self) -> list[Event]:
        text = "".join(self._pieces)
        return [self.at(f"{self._stream}.done", **self._place, text=text), self._part_event("done", text)]

    def _part_event(self, what: str, text: str) -> Event:
        if self._as_summary:
            part = {"type": "summary_text", "text": text}
            return self.at(f"reasoning_summary_part.{what}", **self._place, part=part)
        return self.at(f"content_part.{what}", **self._place, part={"type": "reasoning_text", "text": text})
