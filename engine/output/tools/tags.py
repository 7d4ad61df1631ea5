"""The parts that the formats build their structural tags of. A tag is what xgrammar makes a grammar of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.output.tools.base import Layout
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice
from engine.sample.loosen import as_arguments


def json_body(tool: Tool) -> dict[str, Any]:
    """The format of an arguments object."""
    return {"type": "json_schema", "json_schema": as_arguments(tool.parameters), "strict": tool.strict}


def call_tag(begin: str, content: Mapping[str, Any], end: str) -> dict[str, Any]:
    """One call: `content` between two fixed texts."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def offered(tools: Sequence[Tool], choice: ToolChoice) -> Sequence[Tool]:
    """The tools that may be called under `choice`."""
    match choice.mode:
        case ChoiceMode.NONE:
            return ()
        case ChoiceMode.NAMED:
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return tools


def answer_tag(
    tags: Sequence[Mapping[str, Any]],
    triggers: Sequence[str],
    choice: ToolChoice,
    parallel: bool,
    layout: Layout,
) -> dict[str, Any] | None:
    """The structural tag of a whole answer from the `tag` of each call.

    Free text can't contain a trigger: after one, where a call may stand, only the call can follow.
    """
    if not tags:
        return None
    calls: dict[str, Any] = {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": layout.between,
        "at_least_one": True,
        "stop_after_first": not parallel or layout.single or choice.mode is ChoiceMode.NAMED,
    }
    if layout.begin:
        calls = call_tag(layout.begin, calls, layout.end)
    if choice.forced:
        return {"type": "structural_tag", "format": calls}
    text = {"type": "any_text", "excludes": list(triggers)}
    before = [{"type": "const_string", "value": layout.before}] if layout.before else []
    answer = [calls, {"type": "sequence", "elements": [text, *before, calls]}, text]
    return {"type": "structural_tag", "format": {"type": "or", "elements": answer}}
