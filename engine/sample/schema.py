"""What a JSON schema must be before it is compiled to a grammar.

xgrammar ignores keywords that it can't express, and output that breaks the schema would pass as checked. So they are
refused here, by name and path (`engine.sample.enforceable` knows them). Size and depth are bounded first, since both
schemas and the compiler are recursive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.errors import RequestError
from engine.sample.alternatives import target_of
from engine.sample.enforceable import shortfalls
from engine.sample.pattern import fault_of

MAX_DEPTH = 48
MAX_NODES = 20_000
MAX_PATTERNS = 2_048
"""Of all patterns of a schema: their characters and repetitions. Compiling takes milliseconds for each of them, and
nesting much deeper than this ends the process."""
_TOO_LARGE = f"of more than {MAX_PATTERNS} characters and repetitions"
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
    for _ in schemas_within(schema, param):
        pass
    for fault in faults(schema, closed=closed) if enforce else ():
        raise invalid(fault.message, param, fault.place)


def check_regex(pattern: str, param: str) -> None:
    """Refuse a regular expression that text can't be held to, or that is too large to compile."""
    if _pattern_size(pattern) > MAX_PATTERNS:
        raise invalid(f"a pattern {_TOO_LARGE}", param)
    if fault := fault_of(pattern, in_json=False):
        raise invalid(f"a regular expression with {fault} can't be enforced", param)


class Fault(NamedTuple):
    """A keyword of `node` that a grammar doesn't hold output to."""

    place: str
    node: Mapping[str, Any]
    keyword: str
    message: str


def faults(schema: object, *, closed: bool) -> Iterator[Fault]:
    """All that isn't enforced of a schema that `check_schema` took without `enforce`."""
    if schema is False:
        yield Fault("", {}, "", "`false` allows nothing")
    size = 0
    for path, node in schemas_within(schema, ""):
        for keyword, patterns in _patterns(node).items():
            size += sum(map(_pattern_size, patterns))
            if size > MAX_PATTERNS:
                yield Fault(f"{path}/{keyword}", node, keyword, f"patterns {_TOO_LARGE}")
        typed = {"type": "string", **node} if path.endswith("/propertyNames") else node
        for keyword, message in (*_own(node, path), *shortfalls(typed, schema, closed=closed)):
            yield Fault(f"{path}/{keyword}", node, keyword, message)
        for keyword, place in _false_places(node, path):
            yield Fault(place, node, keyword, "`false` allows nothing; leave it out")


def _own(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """What concerns the whole schema, or the time that compiling takes."""
    if path and isinstance(node.get("$id"), str) and not node["$id"].startswith("#"):
        yield "$id", "references are followed from the whole schema, not from an `$id` within it"
    if node.get("enum") == []:
        yield "enum", "`enum` needs at least one value"
    if isinstance(node.get("propertyNames"), bool):
        yield "propertyNames", "`propertyNames` must be an object"
    counts = sorted(node.keys() & {"minProperties", "maxProperties"})
    if len(node.get("properties") or ()) > MAX_COUNTED_PROPERTIES:
        yield from ((keyword, f"more than {MAX_COUNTED_PROPERTIES} properties can't be counted") for keyword in counts)


def _false_places(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for place, child in _children(node, "", path):
        keyword = place.removeprefix(path).split("/")[1]
        if child is False and keyword not in (*_MAY_BE_FALSE, "propertyNames"):
            yield keyword, place


def schemas_within(schema: object, param: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
        _check_keywords(node, param, path)
        children = list(_children(node, param, path))
        yield path, node
        if (target := _followed(node, schema)) is not None:
            pending.append((node["$ref"][1:], target))
        pending += reversed(children)


def _followed(node: Mapping[str, Any], schema: object) -> object:
    try:
        return target_of(node.get("$ref"), schema)
    except LookupError:
        return None


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


def _check_keywords(node: Mapping[str, Any], param: str, path: str) -> None:
    kinds = node.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind is not None and (not isinstance(kind, str) or kind not in _TYPES):
            raise invalid(f"unknown type {kind!r:.60}", param, f"{path}/type")
    required = node.get("required")
    if required is not None and not (isinstance(required, list) and all(isinstance(r, str) for r in required)):
        raise invalid("`required` must be an array of strings", param, f"{path}/required")
    if not isinstance(node.get("enum", []), list):
        raise invalid("`enum` must be an array", param, f"{path}/enum")
    if not isinstance(node.get("pattern", ""), str):
        raise invalid("`pattern` must be a string", param, f"{path}/pattern")
    if not isinstance(node.get("$ref", ""), str):
        raise invalid("`$ref` must be a string", param, f"{path}/$ref")


def _patterns(node: Mapping[str, Any]) -> dict[str, list[str]]:
    named = node.get("patternProperties")
    found = {"pattern": [node["pattern"]]} if "pattern" in node else {}
    return {**found, "patternProperties": list(named)} if isinstance(named, Mapping) else found


def _pattern_size(pattern: str) -> int:
    return len(pattern) + sum(int(count[:9]) for count in _COUNT.findall(pattern))


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
    for keyword in _SCHEMAS:
        value = node.get(keyword, True)
        if keyword == "items" and isinstance(value, list):  # as `prefixItems` was called before 2020
            yield from ((f"{path}/{keyword}/{index}", child) for index, child in enumerate(value))
        elif keyword in node:
            yield f"{path}/{keyword}", value
