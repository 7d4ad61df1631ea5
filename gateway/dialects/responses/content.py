"""Content of messages and tool outputs as chat content.

One text part is the same as a string. Several stay apart, since only the upstream knows what its model wants between
them. Images, files and audio are passed on where they are given inline or by URL; ids of uploaded files are refused.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects.responses.fields import Fields, as_fields, refused, shown
from gateway.errors import GatewayError

TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def chat_content(owner: Fields, name: str) -> str | list[dict[str, Any]]:
    """A string or a list of parts under `name`."""
    value = owner.raw(name)
    if isinstance(value, str):
        return value
    parts = [_chat_part(part) for part in _parts(owner, name)]
    if not parts:
        return ""
    return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts


def spoken(owner: Fields, name: str) -> tuple[str, str]:
    """What an assistant said and what it refused. A model writes one text, so the parts are joined."""
    value = owner.raw(name)
    if isinstance(value, str):
        return value, ""
    said, declined = [], []
    for part in _parts(owner, name):
        kind = part.needed_text("type")
        if kind == "refusal":
            declined.append(part.needed_text("refusal"))
        elif kind in TEXT_PARTS:
            said.append(part.needed_text("text"))
        else:
            raise _unsupported(part, kind)
    return "".join(said), "".join(declined)


def _parts(owner: Fields, name: str) -> list[Fields]:
    value = owner.raw(name)
    if value is None:
        raise refused(owner.param(name), f"`{owner.param(name)}` is missing", "missing_parameter")
    if not isinstance(value, list):
        raise owner.wrong(name, "a string or an array of parts")
    return [as_fields(part, f"{owner.param(name)}[{at}]") for at, part in enumerate(value)]


def _chat_part(part: Fields) -> dict[str, Any]:
    kind = part.needed_text("type")
    if kind in TEXT_PARTS:
        return {"type": "text", "text": part.needed_text("text")}
    if kind == "refusal":
        return {"type": "text", "text": part.needed_text("refusal")}
    if kind == "input_image":
        return _image(part)
    if kind == "input_file":
        return _file(part)
    if kind == "input_audio":
        return _audio(part)
    raise _unsupported(part, kind)


def _image(part: Fields) -> dict[str, Any]:
    url = part.text("image_url")
    if url is None:
        raise _only_inline(part, "image_url")
    detail = part.text("detail")
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}


def _file(part: Fields) -> dict[str, Any]:
    data, filename = part.text("file_data"), part.text("filename")
    if data is None:
        raise _only_inline(part, "file_data")
    return {"type": "file", "file": {"file_data": data} | ({"filename": filename} if filename else {})}


def _audio(part: Fields) -> dict[str, Any]:
    audio = part.mapping("input_audio")
    if audio is None:
        raise _only_inline(part, "input_audio")
    return {
        "type": "input_audio",
        "input_audio": {"data": audio.needed_text("data"), "format": audio.needed_text("format")},
    }


def _only_inline(part: Fields, wanted: str) -> GatewayError:
    why = f"A part of type {shown(part.raw('type'))} needs `{wanted}`: files are not stored here"
    return refused(part.param(wanted), why, "unsupported_content")


def _unsupported(part: Fields, kind: str) -> GatewayError:
    why = f"A content part of type {shown(kind)} is not supported here"
    return refused(part.param("type"), why, "unsupported_content")
