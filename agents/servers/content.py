"""What a foreign tool answered, as text for the model.

Its structured part is the tool's own and means nothing to the agent, so it is shown only where there is no text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.cut import cut
from agents.toolbox import ToolResult

if TYPE_CHECKING:
    from mcp import types

MOST_CHARACTERS = 400_000
"""Of one answer. What the model reads is cut much shorter, when the result is written down."""


def result_of(answer: types.CallToolResult) -> ToolResult:
    text = "\n".join(part for block in answer.content if (part := _text_of(block)))
    if not text and answer.structured_content is not None:
        text = json.dumps(answer.structured_content, ensure_ascii=False)
    return ToolResult(cut(text, MOST_CHARACTERS) or "(no output)", bool(answer.is_error))


def progress_text(done: float, total: float | None, message: str | None) -> str:
    """One line."""
    count = f"{done:g} of {total:g}" if total else f"{done:g}"
    return f"{count}: {' '.join(message.split())[:200]}" if message else count


def _text_of(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {_size(block.data)}: not shown]"
        case "resource_link":
            facts = [block.mime_type, block.size and f"{block.size} bytes", block.description]
            return f"[resource {block.name}: {block.uri}{_listed(facts)}]"
        case "resource":
            return _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[resource {resource.uri}{_listed([resource.mime_type])}]\n{text}"
    return f"[resource {resource.uri}{_listed([resource.mime_type, _size(getattr(resource, 'blob', ''))])}: not shown]"


def _listed(facts: Sequence[object]) -> str:
    return "".join(f", {fact}" for fact in facts if fact)


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"
