"""A schema as xgrammar must read it to mean the same: patterns are searched for, and annotations are none of its."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.sample.enforceable import ANNOTATIONS
from engine.sample.pattern import searched

IN_JSON = r"[\s\S]*"
IN_XML = "[^<]*"
"""No value may hold the element that ends it."""


def matched_whole(schema: Any, around: str = IN_JSON) -> Any:
    """`schema` with patterns that match all of a text where the original's match a part of it; `around` is the rest."""
    if isinstance(schema, list):
        return [matched_whole(item, around) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _value(key, value, around) for key, value in schema.items() if not _is_annotation(key, value)}


def _value(key: str, value: Any, around: str) -> Any:
    if key in ("const", "enum", "default", "examples", "required"):
        return value
    if key == "pattern" and isinstance(value, str):
        return searched(value, around)
    if key == "patternProperties" and isinstance(value, Mapping):
        return {searched(pattern, around): matched_whole(item, around) for pattern, item in value.items()}
    if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
        return {name: matched_whole(item, around) for name, item in value.items()}
    return matched_whole(value, around)


def _is_annotation(key: str, value: object) -> bool:
    return key == "format" and isinstance(value, str) and value in ANNOTATIONS
