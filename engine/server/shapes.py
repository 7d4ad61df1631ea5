"""JSON schemas of the fields that are read by code of their own, for the OpenAPI document.

They say what clients should send; what is accepted beyond that (other keys, `null`) is in docs/engine-api.md.
"""

from __future__ import annotations

from typing import Any

_PART = {
    "type": "object",
    "properties": {"type": {"enum": ["text", "input_text", "output_text"]}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
_CALL = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}},
            "required": ["name"],
        },
    },
    "required": ["function"],
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
        "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": _PART}]},
        "name": {"type": "string"},
        "tool_calls": {"type": "array", "items": _CALL},
        "tool_call_id": {"type": "string"},
        "reasoning_content": {"type": "string"},
    },
    "required": ["role"],
}
_TOOL = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
                "description": {"type": "string"},
                "parameters": {"type": "object"},
                "strict": {"type": "boolean"},
            },
            "required": ["name"],
        },
    },
    "required": ["function"],
}
_NAMED = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "function": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "required": ["type", "function"],
}

MESSAGES: dict[str, Any] = {"type": "array", "items": _MESSAGE, "minItems": 1}
TOOLS: dict[str, Any] = {"anyOf": [{"type": "array", "items": _TOOL}, {"type": "null"}]}
TOOL_CHOICE: dict[str, Any] = {"anyOf": [{"enum": ["none", "auto", "required"]}, _NAMED, {"type": "null"}]}

MAX_INPUTS = 2048
_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}

TEXTS_OR_TOKENS: dict[str, Any] = {
    "anyOf": [
        _TEXT,
        _TOKENS,
        {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_INPUTS},
        {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": MAX_INPUTS},
    ]
}
