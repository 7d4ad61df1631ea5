"""OpenAI chat messages in one normal form, with every difference that no model sees taken out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.errors import RequestError
from engine.prompt.text import well_formed


class Role(Enum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_ROLES = {
    **{role.value: role for role in Role},
    "developer": Role.SYSTEM,
    "function": Role.TOOL,
}
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


@dataclass(frozen=True)
class ToolCall:
    """A call in the history. `arguments` is the client's JSON text, untouched."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """`content` is never missing: null, an absent content and an empty list are the empty string."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None


def read_messages(value: object, param: str = "messages") -> list[Message]:
    """The messages of a request body, in order. Keys that aren't known are ignored.

    Raises RequestError: `invalid_value` for a wrong shape or role, `unsupported_content` for parts that are no text;
    `param` is the path of what is at fault.
    """
    if not isinstance(value, list):
        raise _invalid(f"{param} must be an array of messages", param)
    if not value:
        raise _invalid(f"{param} is empty: at least one message is needed", param)
    return [_read_message(item, f"{param}[{index}]") for index, item in enumerate(value)]


def _read_message(value: object, param: str) -> Message:
    if not isinstance(value, dict):
        raise _invalid("a message must be an object", param)
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join(_ROLES)
        raise _invalid(f"unknown role {role!r:.100} (known: {known})", f"{param}.role")
    return Message(
        role=_ROLES[role],
        content=_text(value.get("content"), f"{param}.content"),
        tool_calls=_read_calls(value, param),
        tool_call_id=_optional_text(value, "tool_call_id", param),
        name=_optional_text(value, "name", param),
        reasoning=_optional_text(value, "reasoning_content", param),
    )


def _text(content: object, param: str) -> str:
    """A string, null, or an array of text parts: the parts one after another, with nothing between."""
    if content is None:
        return ""
    if isinstance(content, str):
        return well_formed(content)
    if not isinstance(content, list):
        raise _invalid("content must be a string, null or an array of parts", param)
    return "".join(_part_text(part, f"{param}[{index}]") for index, part in enumerate(content))


def _part_text(part: object, param: str) -> str:
    if isinstance(part, str):
        return well_formed(part)
    if not isinstance(part, dict):
        raise _invalid("a content part must be an object", param)
    kind = part.get("type")
    key = _TEXT_PARTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        raise RequestError(
            f"this model reads text only: a content part of type {kind!r:.100} is not supported",
            code="unsupported_content",
            param=f"{param}.type",
        )
    text = part.get(key)
    if not isinstance(text, str):
        raise _invalid(f"a part of type {kind!r} needs a string `{key}`", f"{param}.{key}")
    return well_formed(text)


def _read_calls(message: Mapping[str, Any], param: str) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls")
    if calls is None:
        return ()
    if not isinstance(calls, list):
        raise _invalid("tool_calls must be an array", f"{param}.tool_calls")
    return tuple(_read_call(call, f"{param}.tool_calls[{index}]") for index, call in enumerate(calls))


def _read_call(value: object, param: str) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict):
        raise _invalid("a tool call needs an object `function`", f"{param}.function")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid("a tool call needs a name", f"{param}.function.name")
    arguments = function.get("arguments")
    if not isinstance(arguments, str | None):
        raise _invalid("a tool call's arguments must be a string of JSON", f"{param}.function.arguments")
    call_id = value.get("id")
    return ToolCall(
        id=call_id if isinstance(call_id, str) else "",
        name=well_formed(name),
        arguments=well_formed(arguments or "{}"),
    )


def _optional_text(message: Mapping[str, Any], key: str, param: str) -> str | None:
    value = message.get(key)
    if not isinstance(value, str | None):
        raise _invalid(f"{key} must be a string", f"{param}.{key}")
    return None if value is None else well_formed(value)


def _invalid(message: str, param: str) -> RequestError:
    return RequestError(message, code="invalid_value", param=param)
