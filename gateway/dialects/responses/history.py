"""Input items as chat messages, so that a conversation's messages only grow at their end.

An answer comes back as several items (reasoning, message, calls); what an assistant says in a row becomes one chat
message again, in the order in which models write: reasoning, content, calls. Developer messages become system
messages, in their place, as most templates know no other role. Items of hosted tools are skipped with a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.dialects.responses.content import chat_content, spoken
from gateway.dialects.responses.fields import Fields, as_fields, header_safe, refused, shown
from gateway.dialects.responses.freeform import arguments_of
from gateway.dialects.responses.names import Kind, Names, Origin
from gateway.dialects.responses.reasoning import replayed

ROLES = {"user": "user", "system": "system", "developer": "system"}


class AssistantTurn:
    """What the assistant said without anybody in between."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.declined: list[str] = []
        self.thought: list[str] = []
        self.calls: list[dict[str, Any]] = []

    def message(self) -> dict[str, Any] | None:
        if not (self.said or self.declined or self.thought or self.calls):
            return None
        content = "".join(self.said)
        message: dict[str, Any] = {"role": "assistant", "content": None if self.calls and not content else content}
        if any(self.thought):
            message["reasoning_content"] = "".join(self.thought)
        if any(self.declined):
            message["refusal"] = "".join(self.declined)
        if self.calls:
            message["tool_calls"] = self.calls
        return message


class History:
    def __init__(self, names: Names) -> None:
        self.warnings: dict[str, None] = {}
        self._names = names
        self._messages: list[dict[str, Any]] = []
        self._turn = AssistantTurn()
        self._readers: dict[str, Callable[[Fields], None]] = {
            "message": self._read_message,
            "reasoning": self._read_reasoning,
            "function_call": self._read_function_call,
            "custom_tool_call": self._read_custom_call,
            "function_call_output": self._read_output,
            "custom_tool_call_output": self._read_output,
            "item_reference": self._refuse_reference,
        }

    def messages(self) -> list[dict[str, Any]]:
        self._end_turn()
        return self._messages

    def add(self, message: dict[str, Any]) -> None:
        self._end_turn()
        self._messages.append(message)

    def read(self, item: Fields) -> None:
        kind = item.text("type") or "message"
        reader = self._readers.get(kind)
        if reader is None:
            self.warnings[f"input item {header_safe(kind)} skipped"] = None
        else:
            reader(item)

    def _end_turn(self) -> None:
        message = self._turn.message()
        if message:
            self._messages.append(message)
            self._turn = AssistantTurn()

    def _read_message(self, item: Fields) -> None:
        role = item.needed_text("role")
        if role == "assistant":
            said, declined = spoken(item, "content")
            self._turn.said.append(said)
            self._turn.declined.append(declined)
        elif role in ROLES:
            self.add({"role": ROLES[role], "content": chat_content(item, "content")})
        else:
            known = ", ".join([*ROLES, "assistant"])
            raise refused(item.param("role"), f"Unknown role {shown(role)} (known: {known})")

    def _read_reasoning(self, item: Fields) -> None:
        thought = replayed(item)
        if thought is None:
            self.warnings["reasoning without readable text skipped"] = None
        else:
            self._turn.thought.append(thought)

    def _read_function_call(self, item: Fields) -> None:
        self._call(item, Kind.FUNCTION, item.needed_text("arguments"))

    def _read_custom_call(self, item: Fields) -> None:
        self._call(item, Kind.CUSTOM, arguments_of(item.needed_text("input"), item.raw("id")))

    def _call(self, item: Fields, kind: Kind, arguments: str) -> None:
        name = self._names.flat(Origin(item.needed_text("name"), item.text("namespace"), kind))
        function = {"name": name, "arguments": arguments}
        self._turn.calls.append({"id": item.needed_text("call_id"), "type": "function", "function": function})

    def _read_output(self, item: Fields) -> None:
        content = chat_content(item, "output")
        self.add({"role": "tool", "tool_call_id": item.needed_text("call_id"), "content": content})

    def _refuse_reference(self, item: Fields) -> None:
        why = f"`{item.path}` refers to a stored item, but nothing is stored here: send the item itself"
        raise refused(item.path, why, "unsupported_parameter")


def read_input(body: Fields, names: Names) -> History:
    """The whole history of a request, `instructions` first."""
    history = History(names)
    instructions = body.text("instructions")
    if instructions:
        history.add({"role": "system", "content": instructions})
    value = body.raw("input")
    if isinstance(value, str):
        history.add({"role": "user", "content": value})
    elif isinstance(value, list):
        for at, item in enumerate(value):
            history.read(as_fields(item, f"input[{at}]"))
    elif value is not None:
        raise body.wrong("input", "a string or an array of items")
    if not history.messages():
        raise refused("input", "`input` is missing: a string or an array of items", "missing_parameter")
    return history
