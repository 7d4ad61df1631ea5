"""What the model thought, as it travels through the client and back.

A `reasoning` item carries it as its summary where the request asks for one (`reasoning.summary`), else as content of
type `reasoning_text`. Many clients send neither back, only `encrypted_content`; where the request includes that, it
holds the same text, so that the next turn's prompt has it again to the letter. It is encoded, not secret.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from gateway.dialects.responses.fields import Fields

SEAL = "sapwood-reasoning-1:"


def seal(text: str) -> str:
    return SEAL + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def unseal(sealed: str) -> str | None:
    """None for what wasn't sealed here."""
    if not sealed.startswith(SEAL):
        return None
    try:
        return base64.b64decode(sealed[len(SEAL) :], validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return None


def replayed(item: Fields) -> str | None:
    """The thought in a reasoning item of the history, from the most exact source that is there."""
    sealed = unseal(item.text("encrypted_content") or "")
    if sealed is not None:
        return sealed
    return _joined(item, "content") or _joined(item, "summary") or None


def _joined(item: Fields, name: str) -> str:
    return "".join(part.needed_text("text") for part in item.mappings(name))


def reasoning_item(item_id: str, text: str, *, as_summary: bool, sealed: bool, status: str) -> dict[str, Any]:
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": [], "status": status}
    if as_summary:
        item["summary"] = [{"type": "summary_text", "text": text}] if text else []
    else:
        item["content"] = [{"type": "reasoning_text", "text": text}] if text else []
    if sealed and text:
        item["encrypted_content"] = seal(text)
    return item
