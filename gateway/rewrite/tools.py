"""`sort_tools` and `sort_schema_keys`, for clients whose maps have no order."""

from __future__ import annotations

from gateway.dialects.base import Body, Json, as_list
from gateway.rewrite.base import Edit, moved_bytes, written

LISTS = ("tools", "functions")
"""The field, and what it was called before."""


def function_of(tool: Json) -> dict[str, Json]:
    """The part of a tool that has its name and schema; empty for what is no tool."""
    if not isinstance(tool, dict):
        return {}
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def name_of(tool: Json) -> str:
    name = function_of(tool).get("name")
    return name if isinstance(name, str) else ""


def sort_tools(body: Body) -> Edit:
    changes: dict[str, Json] = {}
    moved = 0
    for field in LISTS:
        tools = as_list(body.get(field))
        changes[field] = sorted(tools, key=lambda tool: (name_of(tool), written(_with_sorted_schema(tool))))
        moved += moved_bytes(tools, changes[field])
    return _changed(body, changes, moved)


def sort_schema_keys(body: Body) -> Edit:
    """Keys only: the order of a list, such as an enum's, may mean something."""
    changes: dict[str, Json] = {}
    moved = 0
    for field in LISTS:
        tools = as_list(body.get(field))
        changes[field] = [_with_sorted_schema(tool) for tool in tools]
        pairs = zip(map(written, tools), map(written, changes[field]), strict=True)
        moved += sum(len(new) for old, new in pairs if old != new)
    return _changed(body, changes, moved)


def _changed(body: Body, changes: dict[str, Json], moved: int) -> Edit:
    if not moved:
        return Edit(body)
    return Edit({**body, **{field: tools for field, tools in changes.items() if tools}}, moved)


def _with_sorted_schema(tool: Json) -> Json:
    function = function_of(tool)
    if not isinstance(function.get("parameters"), dict):
        return tool
    sorted_function = {**function, "parameters": _sorted(function["parameters"])}
    return sorted_function if function is tool else {**tool, "function": sorted_function}


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
