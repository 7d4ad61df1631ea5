"""The tools of a request and which of them the model must call, read from OpenAI's `tools` and `tool_choice`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from engine.errors import RequestError
from engine.sample.schema import check_schema

# A name stands in the text that a model writes, between characters that must not occur in it.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ANY_OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Tool:
    """A function that the model may call. `parameters` is the JSON schema of its arguments object.

    `strict`: all of the schema must be enforced, so that one with other keywords is refused.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(_ANY_OBJECT))
    strict: bool = False

    def as_openai(self) -> dict[str, Any]:
        """The tool as the chat templates of models with tools of their own expect it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


class ChoiceMode(Enum):
    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True)
class ToolChoice:
    """Whether the model may (AUTO), must (REQUIRED, NAMED) or can't (NONE) call a tool."""

    mode: ChoiceMode = ChoiceMode.AUTO
    name: str | None = None

    @property
    def forced(self) -> bool:
        """Whether the answer must begin with a call."""
        return self.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED)


def read_tools(value: object, param: str = "tools") -> tuple[Tool, ...]:
    """The tools of a request body. Raises RequestError that names the entry at fault."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _invalid(f"{param} must be an array", param)
    tools = tuple(_read_tool(item, f"{param}[{index}]") for index, item in enumerate(value))
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise _invalid(f"two tools are named {tool.name!r}", f"{param}[{index}].function.name")
        seen.add(tool.name)
    return tools


def read_choice(value: object, tools: Sequence[Tool], param: str = "tool_choice") -> ToolChoice:
    """`tool_choice`: a mode, or an object that names one of `tools`. Missing means auto."""
    if value is None:
        return ToolChoice(ChoiceMode.AUTO if tools else ChoiceMode.NONE)
    name = _chosen_name(value)
    if name is not None:
        if all(tool.name != name for tool in tools):
            raise _invalid(f"tool_choice names {name!r}, which is not among the tools", param)
        return ToolChoice(ChoiceMode.NAMED, name)
    if value not in ("none", "auto", "required"):
        raise _invalid('tool_choice must be "none", "auto", "required" or name a function', param)
    choice = ToolChoice(ChoiceMode(value))
    if choice.forced and not tools:
        raise _invalid("tool_choice requires a call, but there are no tools", param)
    return choice if tools else ToolChoice(ChoiceMode.NONE)


def _chosen_name(value: object) -> str | None:
    if not isinstance(value, dict) or value.get("type") != "function":
        return None
    function = value.get("function")
    name = function.get("name") if isinstance(function, dict) else value.get("name")
    return name if isinstance(name, str) else None


def _read_tool(value: object, param: str) -> Tool:
    if not isinstance(value, dict) or value.get("type", "function") != "function":
        raise _invalid("a tool must be an object of type function", param)
    function = value.get("function")
    if not isinstance(function, dict):
        raise _invalid("a tool needs an object `function`", f"{param}.function")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _invalid(
            "a tool's name is 1 to 64 letters, digits, underscores, dots and dashes", f"{param}.function.name"
        )
    description = function.get("description") or ""
    if not isinstance(description, str):
        raise _invalid("a tool's description must be a string", f"{param}.function.description")
    parameters = function.get("parameters")
    if parameters is None:
        parameters = dict(_ANY_OBJECT)
    if not isinstance(parameters, dict):
        raise _invalid("a tool's parameters must be a JSON schema object", f"{param}.function.parameters")
    strict = function.get("strict") is True
    if not _was_sound(parameters, strict):
        check_schema(parameters, f"{param}.function.parameters", enforce=strict, closed=True)
    return Tool(name, description, parameters, strict)


def _was_sound(schema: Mapping[str, Any], strict: bool) -> bool:
    try:
        return _is_sound(json.dumps(schema), strict)
    except RecursionError:
        return False


@lru_cache(maxsize=128)
def _is_sound(schema: str, strict: bool) -> bool:
    """An agent sends the same tools each turn, and checking takes ten times as long as writing them out."""
    try:
        check_schema(json.loads(schema), "", enforce=strict, closed=True)
    except RequestError:
        return False
    return True


def _invalid(message: str, param: str) -> RequestError:
    return RequestError(message, code="invalid_value", param=param)
