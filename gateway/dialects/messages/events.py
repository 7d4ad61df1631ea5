"""Anthropic's server-sent events as bytes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from gateway.dialects.messages import signature
from gateway.dialects.messages.sequence import Block, Kind

PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def block_start(block: Block) -> bytes:
    """A block without what its deltas will bring."""
    if block.kind is Kind.TEXT:
        opening: dict[str, Any] = {"type": "text", "text": ""}
    elif block.kind is Kind.THINKING:
        opening = {"type": "thinking", "thinking": "", "signature": ""}
    else:
        opening = {"type": "tool_use", "id": call_id(block), "name": block.name, "input": {}}
    return event("content_block_start", {"index": block.index, "content_block": opening})


def block_delta(block: Block, omit_thinking: bool) -> bytes:
    """What the block has grown by since the last time."""
    text = block.untold(keep=block.kind is Kind.TOOL or omit_thinking)
    if block.kind is Kind.TEXT:
        return _delta(block.index, "text_delta", "text", text)
    if block.kind is Kind.TOOL:
        return _delta(block.index, "input_json_delta", "partial_json", text)
    return b"" if omit_thinking else _delta(block.index, "thinking_delta", "thinking", text)


def block_stop(block: Block, omit_thinking: bool) -> bytes:
    stop = event("content_block_stop", {"index": block.index})
    if block.kind is not Kind.THINKING:
        return stop
    return _delta(block.index, "signature_delta", "signature", signed(block, omit_thinking)) + stop


def whole_block(block: Block, omit_thinking: bool) -> dict[str, Any]:
    """What the events of a block add up to. Arguments that are no JSON object become an empty one."""
    if block.kind is Kind.TEXT:
        return {"type": "text", "text": block.text}
    if block.kind is Kind.THINKING:
        shown = "" if omit_thinking else block.text
        return {"type": "thinking", "thinking": shown, "signature": signed(block, omit_thinking)}
    return {"type": "tool_use", "id": call_id(block), "name": block.name, "input": block.arguments() or {}}


def signed(block: Block, omit_thinking: bool) -> str:
    return signature.carrying(block.text) if omit_thinking else signature.PLAIN


def call_id(block: Block) -> str:
    """The upstream's id of a call, or a new one: clients pair results with calls by it."""
    block.id = block.id or f"toolu_{secrets.token_hex(12)}"
    return block.id


def _delta(index: int, kind: str, field: str, text: str) -> bytes:
    """By hand, since there is one for nearly every token."""
    delta = f'{{"type": "{kind}", "{field}": {json.dumps(text)}}}'
    data = f'{{"type": "content_block_delta", "index": {index}, "delta": {delta}}}'
    return f"event: content_block_delta\ndata: {data}\n\n".encode()
