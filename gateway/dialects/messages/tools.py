"""Anthropic's tools as chat functions.

Deferred tools (`defer_loading`) are given from the start: tools stand at the very front of the prompt, so one that
came later would cost the whole cache. Tools that the conversation itself defines (`tool_addition`) come last.
Tools without a schema (`web_search_…`, `bash_…`) are run by Anthropic's servers or known to its models only: they are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.dialects.messages.check import (
    Json,
    Warnings,
    a_name,
    an_object,
    invalid,
    missing,
    optional_bool,
    optional_list,
    optional_object,
)

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_tools(body: Mapping[str, Json], warnings: Warnings) -> list[Json]:
    given = optional_list(body, "tools")
    placed = [(f"tools.{index}", tool) for index, tool in enumerate(given)]
    tools: dict[str, Json] = {}
    for path, tool in [*placed, *_defined_in(body.get("messages"))]:
        function = _function(an_object(tool, path), path, warnings)
        if function is not None:
            tools.setdefault(function["name"], {"type": "function", "function": function})
    return list(tools.values())


def chat_choice(body: Mapping[str, Json], tools: list[Json]) -> dict[str, Json]:
    """The fields of a chat request that say which tools are to be called; none without tools."""
    choice = optional_object(body, "tool_choice")
    if not choice:
        return {}
    kind = a_name(choice, "type", "tool_choice")
    if kind not in _CHOICES and kind != "tool":
        raise invalid("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'")
    name = a_name(choice, "name", "tool_choice") if kind == "tool" else None
    one = optional_bool(choice, "disable_parallel_tool_use", "tool_choice")
    if not tools:
        if kind in ("any", "tool"):
            raise invalid("tool_choice", f"'{kind}' needs `tools` with an input_schema")
        return {}
    if name is not None and all(tool["function"]["name"] != name for tool in tools):
        raise invalid("tool_choice.name", f"Tool {name!r:.100} is not among `tools`, or has no input_schema")
    asked = {"type": "function", "function": {"name": name}} if name is not None else _CHOICES[kind]
    return {"tool_choice": asked} | ({"parallel_tool_calls": False} if one else {})


def _function(tool: Mapping[str, Json], path: str, warnings: Warnings) -> dict[str, Json] | None:
    """None for a tool that has no schema and isn't the client's own."""
    kind = tool.get("type")
    schema = tool.get("input_schema")
    if schema is None and kind not in (None, "custom"):
        warnings.add(f"dropped the tool {tool.get('name') or kind!s} ({kind}): it has no input_schema")
        return None
    function: dict[str, Json] = {"name": a_name(tool, "name", path)}
    if schema is None:
        raise missing(f"{path}.input_schema")
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    function["parameters"] = an_object(schema, f"{path}.input_schema")
    if optional_bool(tool, "strict", path):
        function["strict"] = True
    return function


def _defined_in(messages: Json) -> Iterator[tuple[str, Json]]:
    """Tools that system messages define; malformed blocks are refused where messages are read."""
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        content = message.get("content") if isinstance(message, dict) and message.get("role") == "system" else None
        for place, block in enumerate(content if isinstance(content, list) else []):
            change = block.get("tool") if isinstance(block, dict) and block.get("type") == "tool_addition" else None
            if isinstance(change, dict) and change.get("type") == "tool_definition":
                yield f"messages.{index}.content.{place}.tool.definition", change.get("definition")
