"""A tool's input schema without `$ref`: constrained decoding and many APIs take no references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_NODES = 20_000
"""References to references grow exponentially; what is beyond becomes a schema that allows anything."""
DEEPEST = 64
"""Levels; the same for what is below."""
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_DATA = ("default", "enum", "const", "examples", "required")
_DROPPED = ("$defs", "definitions", "$schema", "$id", "$anchor", "$comment")


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with its references within itself replaced by what they refer to. A reference inside of what it refers
    to keeps only the type; one to somewhere else allows anything. The result is an object schema with `properties`.
    """
    whole = _Inliner(schema).schema(schema, (), 0)
    rest = {key: value for key, value in whole.items() if key not in ("type", "properties")}
    properties = whole.get("properties")
    return {"type": "object", "properties": properties if isinstance(properties, dict) else {}, **rest}


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MOST_NODES

    def schema(self, node: Any, inside: tuple[str, ...], depth: int) -> Any:
        """`inside` are the references that are being replaced around `node`."""
        if isinstance(node, list):
            return [self.schema(item, inside, depth) for item in node]
        if not isinstance(node, Mapping):
            return node
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            return {}
        kept = [key for key in node if key != "$ref" and key not in _DROPPED]
        own = {key: self._value(key, node[key], inside, depth + 1) for key in kept}
        reference = node.get("$ref")
        return {**self._target(reference, inside, depth + 1), **own} if isinstance(reference, str) else own

    def _value(self, key: str, value: Any, inside: tuple[str, ...], depth: int) -> Any:
        if key in _DATA:
            return value
        if key in _MAPS and isinstance(value, Mapping):
            return {name: self.schema(part, inside, depth) for name, part in value.items()}
        return self.schema(value, inside, depth)

    def _target(self, reference: str, inside: tuple[str, ...], depth: int) -> dict[str, Any]:
        target = self._find(reference)
        if not isinstance(target, Mapping):
            return {}
        if reference in inside:
            return {"type": target["type"]} if isinstance(target.get("type"), str) else {}
        found: dict[str, Any] = self.schema(target, (*inside, reference), depth)
        return found

    def _find(self, reference: str) -> Any:
        """What a JSON pointer within the document points at; None where it points elsewhere or at nothing."""
        place, _, pointer = reference.partition("#")
        if place or (pointer and not pointer.startswith("/")):
            return None
        node: Any = self._root
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(step)
            elif isinstance(node, list) and step.isascii() and step.isdigit() and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node
