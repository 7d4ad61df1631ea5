"""What a JSON schema must be before it is compiled to a grammar.

xgrammar ignores keywords that it can't express, and output that breaks the schema would pass as checked. So they are
refused here, by name and path. Size and depth are bounded first, since both schemas and the compiler are recursive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import RequestError

MAX_DEPTH = 48
MAX_NODES = 20_000
MAX_PATTERNS = 2_048
"""Of all patterns of a schema: their characters and repetitions. Compiling takes milliseconds for each of them, and
nesting much deeper than this ends the process."""
MAX_COUNTED_PROPERTIES = 64
"""With `minProperties` or `maxProperties` a grammar grows with the square of the properties."""

_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_UNSUPPORTED = {
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "contains",
    "uniqueItems",
    "multipleOf",
    "$dynamicRef",
    "$recursiveRef",
}
_COUNT = re.compile(r"[{,]\s*(\d+)(?=\s*[,}])", re.ASCII)
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems")


def check_schema(schema: object, param: str, *, enforce: bool) -> None:
    """Refuse a schema that is malformed; with `enforce` also one that a grammar can't hold output to.

    Raises RequestError(code="invalid_schema") that names the place within the schema.
    """
    _check_size(schema, param)
    pending: list[tuple[str, object]] = [("", schema)]
    patterns = 0
    while pending:
        path, node = pending.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, Mapping):
            raise invalid("a schema must be an object or a boolean", param, path)
        _check_keywords(node, schema, param, path, enforce=enforce)
        patterns += sum(map(_pattern_size, _patterns(node)))
        if patterns > MAX_PATTERNS:
            raise invalid(f"patterns of more than {MAX_PATTERNS} characters and repetitions", param, path)
        pending += _children(node, param, path)


def unenforced(schema: object) -> list[str]:
    """Where a schema that `check_schema` took without `enforce` says more than a grammar holds output to."""
    places: list[str] = []
    pending: list[tuple[str, object]] = [("", schema)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, Mapping):
            named = sorted(_UNSUPPORTED & node.keys())
            places += [f"{path}/{keyword}" for keyword in named if node[keyword] is not False]
            if isinstance(node.get("allOf"), list) and len(node["allOf"]) > 1:
                places.append(f"{path}/allOf")
            pending += reversed(list(_children(node, "", path)))
    return places


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


def _check_keywords(node: Mapping[str, Any], root: object, param: str, path: str, *, enforce: bool) -> None:
    kinds = node.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind is not None and (not isinstance(kind, str) or kind not in _TYPES):
            raise invalid(f"unknown type {kind!r:.60}", param, f"{path}/type")
    required = node.get("required")
    if required is not None and not (isinstance(required, list) and all(isinstance(r, str) for r in required)):
        raise invalid("`required` must be an array of strings", param, f"{path}/required")
    if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
        raise invalid("`enum` must be an array with at least one value", param, f"{path}/enum")
    if not isinstance(node.get("pattern", ""), str):
        raise invalid("`pattern` must be a string", param, f"{path}/pattern")
    if node.keys() & {"minProperties", "maxProperties"} and len(node.get("properties") or ()) > MAX_COUNTED_PROPERTIES:
        raise invalid(f"more than {MAX_COUNTED_PROPERTIES} properties can't be counted", param, path)
    _check_reference(node.get("$ref"), root, param, f"{path}/$ref")
    if enforce:
        _check_enforceable(node, param, path)


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
    target = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or key not in target:
            raise invalid(f"{reference!r:.120} leads nowhere", param, path)
        target = target[key]


def _check_enforceable(node: Mapping[str, Any], param: str, path: str) -> None:
    for keyword in _UNSUPPORTED & node.keys():
        if node[keyword] is not False:
            raise invalid(f"`{keyword}` can't be enforced while generating; leave it out", param, f"{path}/{keyword}")
    if node.keys() & {"pattern", "format"} and node.keys() & {"minLength", "maxLength"}:
        raise invalid("a length next to `pattern` or `format` can't be enforced; leave one out", param, path)
    if isinstance(node.get("allOf"), list) and len(node["allOf"]) > 1:
        raise invalid("`allOf` with several schemas can't be enforced; merge them", param, f"{path}/allOf")


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
