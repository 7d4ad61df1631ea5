"""What values a schema may have, as far as it takes to tell alternatives apart: their types, constants and names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from urllib.parse import unquote

LEADERS = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")
"""Of these the first one counts, whatever stands next to it."""
_MAX_DEPTH = 8
_MAX_BRANCHES = 100


@dataclass(frozen=True)
class _Profile:
    """None is anything. `tags`: the values that a required property may have."""

    kinds: frozenset[str] | None
    values: frozenset[str] | None
    tags: Mapping[str, frozenset[str]]
    required: frozenset[str]
    names: frozenset[str] | None


def leader_of(node: Mapping[str, Any]) -> str | None:
    """The keyword that a grammar is made of, whatever stands next to it."""
    return next((keyword for keyword in LEADERS if keyword in node), None)


def target_of(reference: object, root: object) -> object:
    """What a reference within the schema leads to. Raises LookupError where that is nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise LookupError(reference)
    target = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal():
            target = target[int(key)]
        elif isinstance(target, Mapping):
            target = target[key if key in target else unquote(key)]
        else:
            raise LookupError(reference)
    return target


def kinds_of(node: object, root: object, depth: int = 0) -> frozenset[str] | None:
    """The types that a grammar of `node` lets through; None for any."""
    if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
        return None
    leader = leader_of(node)
    if leader == "$ref":
        return kinds_of(_target(node, root), root, depth + 1)
    if leader in ("const", "enum"):
        return frozenset(map(_kind, _values(node)))
    if leader is not None:
        members = node[leader] if isinstance(node[leader], list) else []
        if leader == "allOf" and len(members) != 1:
            return None
        found = [kinds_of(member, root, depth + 1) for member in members]
        known = [kinds for kinds in found if kinds is not None]
        return frozenset[str]().union(*known) if len(known) == len(found) else None
    kinds = node.get("type")
    if kinds is not None:
        return frozenset(kinds if isinstance(kinds, list) else [kinds])
    if node.keys() & {"properties", "additionalProperties", "unevaluatedProperties"}:
        return frozenset(["object"])
    if node.keys() & {"items", "prefixItems", "unevaluatedItems"}:
        return frozenset(["array"])
    return None


def suits(node: Mapping[str, Any], leader: str, root: object) -> bool:
    """Whether all that `leader` lets through is of the `type` next to it."""
    inner, outer = kinds_of({leader: node[leader]}, root), kinds_of({"type": node["type"]}, root)
    if inner is None or outer is None:
        return False
    return inner <= (outer | {"integer"} if "number" in outer else outer)


def exclusive(branches: list[Any], root: object, closed: bool) -> bool:
    """Whether each value that a grammar writes for one of `branches` is surely valid for no other."""
    if len(branches) > _MAX_BRANCHES:
        return False
    profiles = [_profile(branch, root, closed) for branch in branches]
    return all(_apart(one, other) for one, other in combinations(profiles, 2))


def _apart(one: _Profile, other: _Profile) -> bool:
    if one.kinds is not None and other.kinds is not None and not one.kinds & other.kinds:
        return True
    if one.values is not None and other.values is not None:
        return not one.values & other.values
    if one.kinds != frozenset(["object"]) or other.kinds != one.kinds:
        return False
    if any(one.tags[name].isdisjoint(other.tags[name]) for name in one.tags.keys() & other.tags.keys()):
        return True
    if one.names is None or other.names is None:
        return False
    return not one.required <= other.names and not other.required <= one.names


def _profile(node: object, root: object, closed: bool) -> _Profile:
    for _ in range(_MAX_DEPTH):
        if isinstance(node, Mapping) and "$ref" in node:
            node = _target(node, root)
    kinds = kinds_of(node, root)
    if kinds is not None and "integer" in kinds:
        kinds = kinds - {"integer"} | {"number"}
    if not isinstance(node, Mapping):
        return _Profile(kinds, None, {}, frozenset(), None)
    values = frozenset(map(_text, _values(node))) if leader_of(node) in ("const", "enum") else None
    if leader_of(node) is not None:
        return _Profile(kinds, values, {}, frozenset(), None)
    properties = node.get("properties") or {}
    required = frozenset(node.get("required") or ()) & properties.keys()
    tags = {name: frozenset(map(_text, found)) for name in required if (found := _tag(properties[name], root))}
    more = node.get("additionalProperties", node.get("unevaluatedProperties", not closed))
    shut = more is False and not node.keys() & {"patternProperties", "propertyNames"}
    return _Profile(kinds, values, tags, required, frozenset(properties) if shut else None)


def _tag(node: object, root: object) -> list[Any]:
    """The constants that a property may be; none if it may be anything."""
    if isinstance(node, Mapping) and "$ref" in node:
        node = _target(node, root)
    return _values(node) if isinstance(node, Mapping) and leader_of(node) in ("const", "enum") else []


def _values(node: Mapping[str, Any]) -> list[Any]:
    if "const" in node:
        return [node["const"]]
    return node["enum"] if isinstance(node["enum"], list) else []


def _target(node: Mapping[str, Any], root: object) -> object:
    try:
        return target_of(node["$ref"], root)
    except LookupError:
        return None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if value == value // 1 else "number"
    if value is None:
        return "null"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _text(value: object) -> str:
    """The same for values that JSON schema takes for equal, 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)
