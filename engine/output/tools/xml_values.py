"""What an unescaped text stands for: text, or the JSON that its schema asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PYTHON = {"True": "true", "False": "false", "None": "null"}
_KINDS: dict[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
    dict: ("object",),
    list: ("array",),
}
_STRING = frozenset({"string"})
_OTHERS = frozenset(kind for kinds in _KINDS.values() for kind in kinds) - _STRING
_DEPTH = 8


def is_text(key: str, schema: Mapping[str, Any]) -> bool:
    """Whether the property `key` of an object can be nothing but a string, so that its text is certain at once."""
    return _property_kinds(key, schema) == _STRING


def json_value(text: str, key: str, schema: Mapping[str, Any]) -> str:
    """The JSON of the property `key`: what was written if it is JSON of a kind that is allowed, else a string.

    Of the words for truth and nothing, Python's spelling counts too: chat templates write it into the history.
    """
    kinds = _property_kinds(key, schema)
    source = _PYTHON.get(text.strip(), text.strip())
    if kinds != _STRING and _kinds_of(source) & (kinds - _STRING or _OTHERS):
        return source
    return json.dumps(text, ensure_ascii=False)


def _kinds_of(source: str) -> set[str]:
    """The kinds of schema types that a JSON text has; none if it isn't JSON."""
    try:
        value = json.loads(source, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return set()
    return set(_KINDS[type(value)])


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _property_kinds(key: str, schema: Mapping[str, Any]) -> set[str]:
    root = schema
    properties = _resolved(schema, root).get("properties")
    return _kinds(properties.get(key), root, _DEPTH) if isinstance(properties, Mapping) else set()


def _kinds(schema: object, root: Mapping[str, Any], depth: int) -> set[str]:
    """The types that a schema names, in its own words or in those of its alternatives; none: any."""
    if not isinstance(schema, Mapping) or depth == 0:
        return set()
    schema = _resolved(schema, root)
    named = schema.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {str(kind) for kind in named}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return {kind for value in values for kind in _KINDS.get(type(value), ())}
    alternatives = [item for word in ("anyOf", "oneOf", "allOf") for item in _list(schema.get(word))]
    return {kind for item in alternatives for kind in _kinds(item, root, depth - 1)}


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a `$ref` within the schema points at; the schema itself if it has none that can be followed."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    node: object = root
    for part in reference[2:].split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else schema


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
