"""What a JSON schema must be before it is compiled to a grammar.

xgrammar ignores keywords that it can't express, and output that breaks the schema would pass as checked. So they are
refused here, by name and path (`engine.sample.enforceable` knows them). Size and depth are bounded first, since both
schemas and the compiler are recursive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from engine.errors import RequestError
from engine.sample.alternatives import target_of
from engine.sample.enforceable import shortfalls
from engine.sample.pattern import fault_of

MAX_DEPTH = 48
MAX_NODES = 20_000
MAX_PATTERNS = 2_048
"""Of all patterns of a schema: their characters and repetitions. Compiling takes milliseconds for each of them, and
nesting much deeper than this ends the process."""
MAX_COUNTED_PROPERTIES = 64
"""With `minProperties` or `maxProperties` a grammar grows with the square of the properties."""

_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_COUNT = re.compile(r"[{,]\s*(\d+)(?=\s*[,}])", re.ASCII)
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAY_BE_FALSE = ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "$defs", "definitions")
_SCHEMAS = ("items", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems")


def check_schema(schema: object, param: str, *, enforce: bool, closed: bool = False) -> None:
    """Refuse a schema that is malformed; with `enforce` also one that a grammar can't hold output to, where `closed`
    grammars let through no properties that a schema doesn't name, unless it says so.

    Raises RequestError(code="invalid_schema") that names the place within the schema.
    """
    _check_size(schema, param)
    patterns = 0
    for path, node in _walk(schema, param):
        patterns += sum(map(_pattern_size, _patterns(node)))
        if patterns > MAX_PATTERNS:
            raise invalid(f"patterns of more than {MAX_PATTERNS} characters and repetitions", param, path)
    if isinstance(schema, Mapping) and schema.keys() == {"pattern"}:
        return  # a regular expression alone, as `GrammarCompiler.regex` has it checked
    for path, message in _shortfalls(schema, closed) if enforce else ():
        raise invalid(message, param, path)


def check_regex(pattern: str, param: str) -> None:
    """Refuse a regular expression that text can't be held to, or that is too large to compile."""
    check_schema({"pattern": pattern}, param, enforce=False)
    if fault := fault_of(pattern, in_json=False):
        raise invalid(f"a regular expression with {fault} can't be enforced", param)


def unenforced(schema: object) -> list[str]:
    """Where a schema that `check_schema` took without `enforce` says more than a grammar holds a call to."""
    return list(_unenforced(json.dumps(schema)))


@lru_cache(maxsize=128)
def _unenforced(schema: str) -> tuple[str, ...]:
    """An agent sends the same tools each turn, and they take longer to walk than to write."""
    places: list[str] = []
    for path, _ in _shortfalls(json.loads(schema), closed=True):
        if path not in places and not path.startswith(tuple(f"{place}/" for place in places)):
            places.append(path)
    return tuple(places)


def _shortfalls(schema: object, closed: bool) -> Iterator[tuple[str, str]]:
    """Each place that isn't enforced, and why."""
    if schema is False:
        yield "", "`false` allows nothing"
    for path, node in _walk(schema, ""):
        if path and isinstance(node.get("$id"), str) and not node["$id"].startswith("#"):
            yield f"{path}/$id", "references are followed from the whole schema, not from an `$id` within it"
        typed = {"type": "string", **node} if path.endswith("/propertyNames") else node
        yield from ((f"{path}/{keyword}", message) for keyword, message in shortfalls(typed, schema, closed=closed))
        yield from ((place, "`false` allows nothing; leave it out") for place in _false_places(node, path))


def _false_places(node: Mapping[str, Any], path: str) -> Iterator[str]:
    for place, child in _children(node, "", path):
        if child is False and place.removeprefix(path).split("/")[1] not in _MAY_BE_FALSE:
            yield place


def _walk(schema: object, param: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema within `schema`, wherever a reference finds it. Raises where one is malformed."""
    pending: list[tuple[str, object]] = [("", schema)]
    seen: set[int] = set()
    while pending:
        path, node = pending.pop()
        if isinstance(node, bool) or id(node) in seen:
            continue
        if not isinstance(node, Mapping):
            raise invalid("a schema must be an object or a boolean", param, path)
        seen.add(id(node))
        _check_keywords(node, schema, param, path)
        children = list(_children(node, param, path))
        yield path, node
        if "$ref" in node:
            pending.append((node["$ref"][1:], target_of(node["$ref"], schema)))
        pending += reversed(children)


def invalid(message: str, param: str, path: str = "") -> RequestError:
    """The error for a schema, with the place in it."""
    where = f" at {path}" if path else ""
    return RequestError(f"invalid JSON schema{where}: {message}", code="invalid_schema", param=param)


def _check_size(value: object, param: str) -> None:
    """Count nodes and depth without recursion."""
    nodes = 0
    level: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > 2 * MAX_DEPTH:
            raise invalid(f"nested deeper than {MAX_DEPTH} schemas", param)
        if nodes > MAX_NODES:
            raise invalid(f"larger than {MAX_NODES} values", param)
        level = [child for item in level for child in _values(item)]


def _values(item: object) -> Iterator[object]:
    if isinstance(item, Mapping):
        yield from item.values()
    elif isinstance(item, list):
        yield from item


def _check_keywords(node: Mapping[str, Any], root: object, param: str, path: str) -> None:
    kinds = node.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind is not None and (not isinstance(kind, str) or kind not in _TYPES):
            raise invalid(f"unknown type {kind!r:.60}", param, f"{path}/type")
    required = node.get("required")
    if required is not None and not (isinstance(required, list) and all(isinstance(r, str) for r in required)):
        raise invalid("`required` must be an array of strings", param, f"{path}/required")
    if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
        raise invalid("`enum` must be an array with at least one value", param, f"{path}/enum")
    if isinstance(node.get("propertyNames"), bool):
        raise invalid("`propertyNames` must be an object", param, f"{path}/propertyNames")
    if not isinstance(node.get("pattern", ""), str):
        raise invalid("`pattern` must be a string", param, f"{path}/pattern")
    if node.keys() & {"minProperties", "maxProperties"} and len(node.get("properties") or ()) > MAX_COUNTED_PROPERTIES:
        raise invalid(f"more than {MAX_COUNTED_PROPERTIES} properties can't be counted", param, path)
    _check_reference(node.get("$ref"), root, param, f"{path}/$ref")


def _patterns(node: Mapping[str, Any]) -> Iterator[str]:
    yield node.get("pattern", "")
    named = node.get("patternProperties")
    yield from named if isinstance(named, Mapping) else ()


def _pattern_size(pattern: str) -> int:
    return len(pattern) + sum(int(count[:9]) for count in _COUNT.findall(pattern))


def _check_reference(reference: object, root: object, param: str, path: str) -> None:
    if reference is None:
        return
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise invalid("only references within the schema (`#/…`) are followed", param, path)
    try:
        target_of(reference, root)
    except LookupError:
        raise invalid(f"{reference!r:.120} leads nowhere", param, path) from None


def _children(node: Mapping[str, Any], param: str, path: str) -> Iterator[tuple[str, object]]:
    for keyword in _SCHEMA_MAPS:
        value = node.get(keyword, {})
        if not isinstance(value, Mapping):
            raise invalid(f"`{keyword}` must be an object", param, f"{path}/{keyword}")
        yield from ((f"{path}/{keyword}/{name}", child) for name, child in value.items())
    for keyword in _SCHEMA_LISTS:
        value = node.get(keyword, [])
        if not isinstance(value, list):
            raise invalid(f"`{keyword}` must be an array", param, f"{path}/{keyword}")
        yield from ((f"{path}/{keyword}/{index}", child) for index, child in enumerate(value))
    yield from ((f"{path}/{keyword}", node[keyword]) for keyword in _SCHEMAS if keyword in node)
