"""Which keywords of one schema a grammar can't hold output to.

Each rule here was found by experiment: xgrammar takes one keyword of a schema to be its whole meaning (`$ref`, then
`const`, `enum`, `anyOf`, `oneOf`, `allOf`, then the type), passes over what stands next to it, and names no place when
it refuses. What a rule names is refused where a schema must be enforced, and told to the client elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.sample.alternatives import exclusive, kinds_of, leader_of, suits, target_of
from engine.sample.pattern import disjoint, fault_of

Place = tuple[str, str]
"""A keyword, and what to say of it."""

# fmt: off
UNSUPPORTED = frozenset([
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "uniqueItems",
    "multipleOf", "$dynamicRef", "$recursiveRef",
])
FORMATS = frozenset([
    "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "uri-reference",
    "uri-template", "json-pointer", "relative-json-pointer",
])
"""Those that are enforced, by their shape: 2023-02-31 is a date."""
ANNOTATIONS = frozenset([
    "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "float", "double", "decimal",
    "password", "byte", "binary",
])
"""Those of OpenAPI, which say how a value is kept and not which it may be."""
_OF_KIND = {
    "string": ["minLength", "maxLength", "pattern", "format"],
    "number": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
    "object": [
        "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "minProperties",
        "maxProperties", "unevaluatedProperties",
    ],
    "array": ["items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"],
}
# fmt: on
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_RANGES = [("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")]
_RANGES += [("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")]
_ASSERTIONS = {keyword for family in _OF_KIND.values() for keyword in family} | {
    *("type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf")
}
_LARGEST = (1 << 63) - 1
_MOST_LINKS = 64
"""From reference to reference, or to alternative, until something is said of a value."""


def shortfalls(node: Mapping[str, Any], root: object, *, closed: bool) -> Iterator[Place]:
    """The keywords of `node`, a part of the schema `root`, that aren't enforced. `closed`: objects hold no properties
    that they don't name, unless they say otherwise."""
    for keyword in sorted(UNSUPPORTED & node.keys()):
        if node[keyword] is not False:
            yield keyword, f"`{keyword}` can't be enforced while generating; leave it out"
    leader = leader_of(node)
    if leader is not None:
        yield from _beside(node, leader, root)
        yield from _alternatives(node, leader, root, closed)
        return
    kinds = kinds_of(node, root)
    if kinds is None:
        present = [keyword for family in _OF_KIND.values() for keyword in family if keyword in node]
        yield from ((keyword, f"`{keyword}` needs a `type` next to it") for keyword in present)
        return
    if not kinds:
        yield "type", "`type` names no type"
    yield from _numbers(node, kinds)
    if "string" in kinds:
        yield from _string(node)
    elif "format" in node and not (isinstance(node["format"], str) and node["format"] in FORMATS | ANNOTATIONS):
        yield "format", f"the format {node['format']!r:.60} is unknown"
    if "object" in kinds:
        yield from _object(node, closed)
    if "array" in kinds:
        yield from _array(node)


def _beside(node: Mapping[str, Any], leader: str, root: object) -> Iterator[Place]:
    """What stands next to the one keyword that counts."""
    others = sorted((node.keys() & _ASSERTIONS) - {leader})
    if "type" in others and suits(node, leader, root):
        others.remove("type")
    if leader in ("enum", "const") and "type" in others:
        others.remove("type")
        yield leader, f"`{leader}` holds a value that `type` excludes"
    if leader in ("anyOf", "oneOf", "allOf") and {"type", "properties"} & set(others):
        yield leader, f"`{leader}` next to {_named(others)} can't be enforced; merge them"
        return
    for keyword in others:
        yield keyword, f"`{keyword}` next to `{leader}` can't be enforced; merge them"


def _alternatives(node: Mapping[str, Any], leader: str, root: object, closed: bool) -> Iterator[Place]:
    members = node[leader]
    if leader in ("$ref", "anyOf", "oneOf", "allOf") and (why := _dead_end(node, leader, root)):
        yield leader, why
    if leader == "allOf" and isinstance(members, list) and len(members) != 1:
        what = "with several schemas can't be enforced; merge them" if members else "is empty; leave it out"
        yield leader, f"`allOf` {what}"
    if leader == "oneOf" and isinstance(members, list) and not exclusive(members, root, closed):
        yield leader, "`oneOf` is enforced as `anyOf`, and these schemas aren't sure to exclude each other"


def _dead_end(node: Mapping[str, Any], leader: str, root: object) -> str | None:
    """What is wrong with references or alternatives that no value can fit."""
    if leader == "$ref":
        try:
            target_of(node["$ref"], root)
        except LookupError:
            return _astray(node["$ref"])
    pending: list[object] = [node]
    seen: set[int] = set()
    while pending:
        at = pending.pop()
        members = _members(at, root)
        if members is None:
            return None
        if len(seen) > _MOST_LINKS:
            return f"`{leader}` leads through more than {_MOST_LINKS} schemas"
        if id(at) not in seen:
            seen.add(id(at))
            pending += members
    return f"`{leader}` only leads back to itself, or to `false`"


def _members(node: object, root: object) -> list[object] | None:
    """The schemas one of which a value of `node` has to fit; None where it says something itself."""
    if not isinstance(node, Mapping):
        return None if node else []
    leader = leader_of(node)
    if leader == "$ref":
        try:
            return [target_of(node["$ref"], root)]
        except LookupError:
            return None
    return list(node[leader]) if leader in ("anyOf", "oneOf", "allOf") and node[leader] else None


def _astray(reference: object) -> str:
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        return f"{reference!r:.120} leads nowhere"
    return "only references within the schema (`#/…`) are followed"


def _numbers(node: Mapping[str, Any], kinds: frozenset[str]) -> Iterator[Place]:
    for keyword in _COUNTS:
        if keyword in node and not (type(node[keyword]) is int and 0 <= node[keyword] <= _LARGEST):
            yield keyword, f"`{keyword}` must be a whole number from 0 on, written without a point"
    for keyword in _OF_KIND["number"] if kinds & {"number", "integer"} else ():
        bound = node.get(keyword, 0)
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            yield keyword, f"`{keyword}` must be a number"
        elif "integer" in kinds and not (bound % 1 == 0 and abs(bound) <= _LARGEST):
            yield keyword, f"`{keyword}` of an integer must be a whole number of 64 bits"
    for least, most in _RANGES:
        low, high = node.get(least), node.get(most)
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            yield least, f"`{least}` is greater than `{most}`"
    above, below = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if "integer" in kinds and isinstance(above, int) and isinstance(below, int) and above <= below <= above + 1:
        yield "exclusiveMinimum", "there is no integer between `exclusiveMinimum` and `exclusiveMaximum`"


def _string(node: Mapping[str, Any]) -> Iterator[Place]:
    name = node.get("format")
    known = isinstance(name, str) and name in FORMATS
    if name is not None and not known and not (isinstance(name, str) and name in ANNOTATIONS):
        yield "format", f"the format {name!r:.60} can't be enforced; leave it out"
    pattern = node.get("pattern")
    if isinstance(pattern, str):
        if fault := fault_of(pattern):
            yield "pattern", f"a pattern with {fault} can't be enforced"
        if known:
            yield "pattern", "a pattern next to `format` can't be enforced; leave one out"
    for keyword in ("minLength", "maxLength") if known or pattern is not None else ():
        if keyword in node:
            yield keyword, "a length next to `pattern` or `format` can't be enforced; leave one out"


def _object(node: Mapping[str, Any], closed: bool) -> Iterator[Place]:
    named, patterns = node.get("properties") or {}, node.get("patternProperties") or {}
    unknown = [name for name in node.get("required") or () if name not in named]
    if unknown:
        yield "required", f"`required` names {unknown[0]!r:.60}, which `properties` doesn't"
    more = [node[keyword] for keyword in ("additionalProperties", "unevaluatedProperties") if keyword in node]
    is_open = more[0] is not False if more else not closed
    for pattern in patterns:
        if fault := fault_of(pattern):
            yield "patternProperties", f"a pattern with {fault} can't be enforced"
    if named and patterns and (is_open or not _apart(named, patterns)):
        yield "patternProperties", "`patternProperties` next to other properties that match them can't be enforced"
    elif len(patterns) > 1 and not disjoint(list(patterns)):
        yield "patternProperties", "patterns of properties that may match the same name can't be enforced"
    if "propertyNames" in node and (named or patterns or node.get("additionalProperties") is False):
        yield "propertyNames", "`propertyNames` next to `properties` or `patternProperties` can't be enforced"
    least = node.get("minProperties")
    if isinstance(least, int) and least > len(named) and not (is_open or patterns or "propertyNames" in node):
        yield "minProperties", "`minProperties` is more than the properties that may be there"
    if isinstance(least, int) and least > 1 and (is_open or patterns or "propertyNames" in node):
        yield "minProperties", "`minProperties` counts a name that is written twice, unless all properties are named"
    if "additionalProperties" not in node and node.get("unevaluatedProperties") is False and not closed:
        yield "unevaluatedProperties", "`unevaluatedProperties` isn't enforced; say `additionalProperties`"


def _apart(named: Mapping[str, Any], patterns: Mapping[str, Any]) -> bool:
    """Whether no named property begins as a pattern does, so that each has one schema only."""
    return all(disjoint([f"^{name}", pattern]) for name in named for pattern in patterns)


def _array(node: Mapping[str, Any]) -> Iterator[Place]:
    if isinstance(node.get("items"), list):
        yield "items", "a list of schemas is written `prefixItems`"
        return
    first = node.get("prefixItems")
    count = len(first) if isinstance(first, list) else 0
    most, least = node.get("maxItems"), node.get("minItems")
    if isinstance(most, int) and most < count:
        yield "maxItems", "`maxItems` is less than the items that `prefixItems` has"
    if isinstance(least, int) and least > count and not node.get("items", node.get("unevaluatedItems", False)):
        yield "minItems", "`minItems` needs `items` next to it"


def _named(keywords: list[str]) -> str:
    return ", ".join(f"`{keyword}`" for keyword in keywords[:3])
