"""Content blocks as the content of a chat message.

Text blocks of one message are joined with a blank line, the same way everywhere and without regard to
`cache_control`: what a message becomes depends on that message alone, so a prefix stays byte for byte the same
whatever is sent after it, and a markup line in a block of its own stays a line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.dialects.messages.check import (
    Json,
    Warnings,
    a_list,
    a_name,
    a_string,
    an_object,
    invalid,
    missing,
    unsupported,
)

BLOCK_GAP = "\n\n"
ERROR_MARK = "Error: "
"""Begins the content of a tool result that is an error: chat messages have no other place to say so."""

Part = str | dict[str, Json]
"""A text, or a chat content part that is no text."""


def kind_of(block: Json, path: str) -> tuple[Mapping[str, Json], str]:
    """A block as an object, and its type."""
    known = an_object(block, path)
    return known, a_name(known, "type", path)


def system_text(value: Json, warnings: Warnings, path: str = "system") -> str:
    """A system prompt, whether it comes as a string or as blocks; empty if there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    parts: list[Part] = []
    for index, block in enumerate(a_list(value, path)):
        known, kind = kind_of(block, f"{path}.{index}")
        if kind == "text":
            parts += text_part(known, f"{path}.{index}")
        elif kind not in _TOOL_CHANGES:
            warnings.add(f"dropped a {kind} block of a system prompt")
    return as_text(parts)


def part_of(block: Mapping[str, Json], kind: str, path: str, warnings: Warnings) -> list[Part]:
    """What a user, or a tool, says in one block; nothing for a kind that has nothing to read in it."""
    if kind == "text":
        return text_part(block, path)
    if kind == "image":
        return [_image(block, path)]
    if kind == "document":
        return [*_titles(block, ("title", "context"), path), *_document(block, path)]
    if kind == "search_result":
        return [*_titles(block, ("title", "source"), path), *_quoted(block, path)]
    if kind == "tool_reference":
        return [f"The tool {a_name(block, 'tool_name', path)} is available."]
    warnings.add(f"dropped a {kind} block")
    return []


def text_part(block: Mapping[str, Json], path: str) -> list[Part]:
    text = a_string(block, "text", path)
    return [text] if text else []


def result_content(block: Mapping[str, Json], path: str, warnings: Warnings) -> str | list[dict[str, Json]]:
    """What a `tool_result` says, marked if it is an error."""
    parts = _content_parts(block.get("content"), f"{path}.content", warnings)
    failed = block.get("is_error")
    if failed is not None and not isinstance(failed, bool):
        raise invalid(f"{path}.is_error", "Input should be true or false")
    if failed:
        first = parts[0] if parts else ""
        parts = [ERROR_MARK + first, *parts[1:]] if isinstance(first, str) else [ERROR_MARK, *parts]
    return as_content(parts)


def as_content(parts: Sequence[Part]) -> str | list[dict[str, Json]]:
    """A string where there is only text, else chat content parts with each run of texts as one."""
    if all(isinstance(part, str) for part in parts):
        return as_text(parts)
    content: list[dict[str, Json]] = []
    run: list[Part] = []
    for part in parts:
        if isinstance(part, str):
            run.append(part)
            continue
        content += _as_part(run)
        content.append(part)
        run = []
    return content + _as_part(run)


def as_text(parts: Sequence[Part]) -> str:
    return BLOCK_GAP.join(part for part in parts if isinstance(part, str))


_TOOL_CHANGES = frozenset({"tool_addition", "tool_removal"})


def _as_part(run: Sequence[Part]) -> list[dict[str, Json]]:
    return [{"type": "text", "text": as_text(run)}] if run else []


def _content_parts(content: Json, path: str, warnings: Warnings) -> list[Part]:
    """Content that is missing, a string, or a list of blocks."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [content]
    parts: list[Part] = []
    for index, block in enumerate(a_list(content, path)):
        known, kind = kind_of(block, f"{path}.{index}")
        parts += part_of(known, kind, f"{path}.{index}", warnings)
    return parts


def _source(block: Mapping[str, Json], path: str) -> tuple[Mapping[str, Json], str]:
    if block.get("source") is None:
        raise missing(f"{path}.source")
    return kind_of(block["source"], f"{path}.source")


def _image(block: Mapping[str, Json], path: str) -> dict[str, Json]:
    source, kind = _source(block, path)
    where = f"{path}.source"
    if kind == "base64":
        url = f"data:{a_name(source, 'media_type', where)};base64,{a_name(source, 'data', where)}"
    elif kind == "url":
        url = a_name(source, "url", where)
    else:
        raise unsupported(where, f"images of type {kind!r:.60} can't be read here: send base64 or a url")
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: Mapping[str, Json], path: str) -> list[Part]:
    source, kind = _source(block, path)
    where = f"{path}.source"
    if kind == "text":
        data = a_string(source, "data", where)
        return [data] if data else []
    if kind == "content":
        return _quoted(source, where)
    raise unsupported(where, f"documents of type {kind!r:.60} can't be read here: send their text")


def _quoted(holder: Mapping[str, Json], path: str) -> list[Part]:
    """The content of a document or a search result: a string, or texts and images, never blocks with blocks in them."""
    content = holder.get("content")
    if content is None or isinstance(content, str):
        return [content] if content else []
    parts: list[Part] = []
    for index, block in enumerate(a_list(content, f"{path}.content")):
        where = f"{path}.content.{index}"
        known, kind = kind_of(block, where)
        if kind not in ("text", "image"):
            raise invalid(where, f"{kind:.60} blocks can't stand in another block's content")
        parts += text_part(known, where) if kind == "text" else [_image(known, where)]
    return parts


def _titles(block: Mapping[str, Json], keys: Sequence[str], path: str) -> list[Part]:
    return [a_string(block, key, path) for key in keys if block.get(key)]
