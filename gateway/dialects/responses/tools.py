"""A request's tools as chat functions.

| client's tool | chat |
|---|---|
| `function` | the same; `strict` and `description` as they are |
| `namespace` | each of its tools, under a flat name; calls come back with name and namespace |
| `custom` | a function with one string `input`; a grammar is told in its description, not enforced |
| any other | runs on OpenAI's servers, so it is dropped, with a warning |

All tools are offered at once, `defer_loading` or not: a tool that joined later would change the prompt's beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway.dialects.responses.fields import Fields, header_safe
from gateway.dialects.responses.names import Kind, Names, Origin

OFFERED = ("function", "custom", "namespace")
COPIED = ("description", "parameters", "strict")


@dataclass(frozen=True, slots=True)
class Toolbox:
    offered: list[dict[str, Any]]
    """Chat tools, in the client's order."""
    names: Names
    echoed: list[Any]
    """The client's tools that are offered, for the Response object."""
    warnings: tuple[str, ...] = ()


def read_tools(body: Fields) -> Toolbox:
    tools = body.mappings("tools")
    kept = [tool for tool in tools if tool.needed_text("type") in OFFERED]
    members = list(_members(kept))
    names = Names(origin for origin, _ in members)
    offered = {names.flat(origin): _chat_tool(names.flat(origin), origin.kind, tool) for origin, tool in members}
    dropped = sorted({header_safe(tool.needed_text("type")) for tool in tools if tool.raw("type") not in OFFERED})
    return Toolbox(
        offered=list(offered.values()),
        names=names,
        echoed=[_echo(tool) for tool in kept],
        warnings=tuple(f"tool {kind} dropped" for kind in dropped),
    )


def _members(tools: list[Fields]) -> Iterator[tuple[Origin, Fields]]:
    for tool in tools:
        kind, name = tool.needed_text("type"), tool.needed_text("name")
        if kind != "namespace":
            yield Origin(name, None, Kind(kind)), tool
            continue
        for inner in tool.mappings("tools"):
            yield Origin(inner.needed_text("name"), name, _inner_kind(inner)), inner


def _inner_kind(tool: Fields) -> Kind:
    kind = tool.needed_text("type")
    if kind not in ("function", "custom"):
        raise tool.wrong("type", '"function" or "custom" inside of a namespace')
    return Kind(kind)


def _chat_tool(flat: str, kind: Kind, tool: Fields) -> dict[str, Any]:
    tool.text("description")
    tool.flag("strict")
    function = {"name": flat} | (_freeform(tool) if kind is Kind.CUSTOM else _function(tool))
    return {"type": "function", "function": function}


def _function(tool: Fields) -> dict[str, Any]:
    tool.mapping("parameters")
    return {name: tool.raw(name) for name in COPIED if tool.raw(name) is not None}


def _freeform(tool: Fields) -> dict[str, Any]:
    said = [text for text in (tool.text("description"), _grammar(tool)) if text]
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The tool's whole input, as plain text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ({"description": "\n\n".join(said)} if said else {}) | {"parameters": parameters}


def _grammar(tool: Fields) -> str:
    shape = tool.mapping("format")
    if shape is None or shape.text("type") != "grammar":
        return ""
    return f"The input must follow this {shape.needed_text('syntax')} grammar:\n{shape.needed_text('definition')}"


def _echo(tool: Fields) -> Any:
    """As sent; a namespace always has a description there."""
    return {"description": "", **tool.values} if tool.raw("type") == "namespace" else tool.values
