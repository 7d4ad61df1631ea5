"""`tool_choice`: a mode, one tool, or a part of the tools.

`allowed_tools` has no counterpart that chat upstreams agree on, so only the allowed are offered. A tool in a namespace
is named with its `namespace`, or without where only one tool has the name. A choice of a hosted tool counts as `auto`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.dialects.responses.fields import Fields, refused, shown
from gateway.dialects.responses.names import Kind, Origin
from gateway.dialects.responses.tools import Toolbox

MODES = ("auto", "none", "required")
KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Choice:
    chat: Any
    """The chat request's `tool_choice`; None leaves it out."""
    offered: list[dict[str, Any]]
    echoed: Any
    warnings: tuple[str, ...] = ()


def read_choice(body: Fields, tools: Toolbox) -> Choice:
    value = body.raw("tool_choice")
    if value is None:
        return Choice(None, tools.offered, "auto")
    if isinstance(value, str):
        return _mode(value, value, tools.offered)
    choice = body.mapping("tool_choice")
    assert choice is not None
    kind = choice.needed_text("type")
    if kind == "allowed_tools":
        return _allowed(choice, tools)
    if kind not in KINDS:
        return Choice(None, tools.offered, "auto", ("tool_choice of a hosted tool ignored",))
    return Choice(_named(_flat(choice, tools)), tools.offered, value)


def _mode(mode: str, echoed: Any, offered: list[dict[str, Any]]) -> Choice:
    if mode not in MODES:
        raise refused("tool_choice", f"`tool_choice` must be one of {', '.join(MODES)}, or an object")
    if mode == "required" and not offered:
        raise refused("tool_choice", "`tool_choice` requires a call, but no tool is left that could be called")
    return Choice(mode if offered else None, offered, echoed)


def _allowed(choice: Fields, tools: Toolbox) -> Choice:
    mode = choice.text("mode") or "auto"
    allowed = choice.mappings("tools")
    flat = {_flat(tool, tools) for tool in allowed if tool.needed_text("type") in KINDS}
    if not flat and mode == "auto":
        return _mode("none", choice.values, tools.offered)
    offered = [tool for tool in tools.offered if tool["function"]["name"] in flat]
    return _mode(mode, choice.values, offered)


def _flat(choice: Fields, tools: Toolbox) -> str:
    """The flat name of the tool that an object names."""
    name, namespace = choice.needed_text("name"), choice.text("namespace")
    exact = Origin(name, namespace, KINDS[choice.needed_text("type")])
    if exact in tools.names:
        return tools.names.flat(exact)
    same = [origin for origin in tools.names.origins() if origin.name == name]
    if namespace is None and len(same) == 1:
        return tools.names.flat(same[0])
    raise refused(choice.param("name"), f"`tool_choice` names {shown(name)}, which is not among the tools")


def _named(flat: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": flat}}
