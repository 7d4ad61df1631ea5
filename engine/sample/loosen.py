"""What a grammar can hold a tool's arguments to, of a schema that says more.

Agents send the schemas of any MCP server, and JSON schema allows much that no grammar expresses. Each keyword that
`schema.faults` finds is dropped or widened, so that all which the schema allows can still be written, and as little
else as possible. The header that tells a client of it is made of the same places, so that the two agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from engine.sample.alternatives import leader_of, target_of
from engine.sample.pattern import fault_of, needs_escapes
from engine.sample.prepare_schema import matched_whole
from engine.sample.schema import Fault, faults, schemas_within

COUNTED = 128
"""From this many on xgrammar counts repetitions while generating: with a choice in them a mask takes most of a second,
with one class of characters next to nothing. So a string that may be this long can hold no escapes."""
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_ROUNDS = 12
_MAX_COPIES = 64
"""Of what references lead to, so that a small schema can't become a large one."""
_MAX_TEXT = 1 << 20
_DEPTH = 6
_APPLICATORS = ("anyOf", "oneOf", "allOf", "if", "then", "else", "dependentSchemas", "dependencies", "$ref")

Node = dict[str, Any]


@dataclass(frozen=True)
class Loosened:
    """`schema` has nothing left that isn't enforced; `places` are those of the original that are lost."""

    schema: Mapping[str, Any]
    places: tuple[str, ...] = ()


def as_arguments(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an arguments object: without a type any JSON value would do."""
    return schema if leader_of(schema) is not None or "type" in schema else {**schema, "type": "object"}


def loosened(schema: Mapping[str, Any]) -> Loosened:
    """Of a tool's parameters, which `check_schema` took without `enforce`. Any object, and the place "", as the last
    resort: where it can't be loosened, or the compiler still refuses it."""
    return _loosened(json.dumps(schema))


def unenforced(schema: Mapping[str, Any]) -> list[str]:
    """Where a tool's parameters say more than a grammar holds a call to."""
    return list(loosened(schema).places)


@lru_cache(maxsize=128)
def _loosened(text: str) -> Loosened:
    """An agent sends the same tools each turn, and they take longer to walk than to write."""
    original = as_arguments(json.loads(text))
    schema, copies, lost = original, _Copies(), list[str]()
    for _ in range(_ROUNDS):
        found: dict[int, list[str]] = {}
        for fault in (*faults(schema, closed=True), *_narrow(schema)):
            found.setdefault(id(fault.node), []).append(fault.keyword)
            lost.append(fault.place)
        if not found:
            return Loosened(schema, _outermost(lost, original)) if _compiles(schema) else Loosened(ANY_OBJECT, ("",))
        schema = as_arguments(_rebuilt(schema, found, partial(_repaired, root=schema, copies=copies)))
        if len(json.dumps(schema)) > _MAX_TEXT:
            break
    return Loosened(ANY_OBJECT, ("",))


def _narrow(schema: Mapping[str, Any]) -> Iterator[Fault]:
    """What is enforced by letting through less than the schema allows: text without quotes and line feeds."""
    for path, node in schemas_within(schema, ""):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and not fault_of(pattern) and needs_escapes(pattern):
            yield Fault(f"{path}/pattern", node, "pattern", "texts that match may hold what JSON escapes")
        for keyword in ("minLength", "maxLength"):
            if isinstance(node.get(keyword), int | float) and node[keyword] >= COUNTED:
                yield Fault(f"{path}/{keyword}", node, keyword, f"{COUNTED} characters and more can't be escapes")


def _outermost(places: list[str], original: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of `original`, without any that is within another. The rest came of merging what is lost as a whole."""
    own = {f"{path}/{keyword}" for path, node in schemas_within(original, "") for keyword in node}
    own |= {place for place in places if place.rpartition("/")[0] in own}  # `false` as a property or an item
    known = [place for place in dict.fromkeys(places) if place in own]
    return tuple(place for place in known if not any(place.startswith(f"{other}/") for other in known))


def _compiles(schema: Mapping[str, Any]) -> bool:
    import xgrammar

    try:
        xgrammar.Grammar.from_json_schema(json.dumps(matched_whole(schema)), any_whitespace=False)
    except (RuntimeError, ValueError, TypeError):  # it has no type of its own for these
        return False
    return True


def _rebuilt(value: Any, found: Mapping[int, list[str]], repair: Callable[[Node, str], Node]) -> Any:
    """A copy in which each schema that has faults is repaired."""
    if isinstance(value, list):
        return [_rebuilt(item, found, repair) for item in value]
    if not isinstance(value, Mapping):
        return value
    node = dict(value)
    for keyword in dict.fromkeys(found.get(id(value), ())):
        node = repair(node, keyword)
    return {key: _rebuilt(item, found, repair) for key, item in node.items()}


class _Copies:
    """What references lead to, as long as there may be more copies of it."""

    def __init__(self) -> None:
        self._left = _MAX_COPIES

    def of(self, node: Any, root: object) -> Any:
        for _ in range(_DEPTH):
            if not isinstance(node, Mapping) or "$ref" not in node:
                return node
            self._left -= 1
            target = _target(node["$ref"], root) if self._left >= 0 else {}
            rest = {key: value for key, value in node.items() if key != "$ref"}
            node = _both([target, rest]) if rest and isinstance(target, Mapping) else target
        return {}


def _repaired(node: Node, keyword: str, *, root: object, copies: _Copies) -> Node:
    """`node` without the fault of `keyword`, or nearer to it."""
    if keyword not in node:
        return node
    value = node[keyword]
    match keyword:
        case "anyOf" | "oneOf" if isinstance(value, list) and False in value:
            return _with(node, keyword, [item for item in value if item is not False])
        case "oneOf" if not node.keys() & {"type", "properties", "anyOf"}:
            return _with(_without(node, "oneOf"), "anyOf", value)
        case "allOf" if value:
            parts = [copies.of(part, root) for part in value]
            return _both([_without(node, "allOf"), *(part for part in parts if isinstance(part, Mapping))])
        case "properties" if "$ref" in node:
            return dict(copies.of(node, root))
        case "properties" if isinstance(value, Mapping) and leader_of(node) is None:
            return _with(node, "properties", {name: item for name, item in value.items() if item is not False})
        case "required" if leader_of(node) is None:
            return _naming_required(node)
        case "patternProperties":
            return _with(_without(node, keyword), "additionalProperties", True)
        case "items" if isinstance(value, list):
            rest = {"items": node["additionalItems"]} if "additionalItems" in node else {}
            return {**_without(_without(node, "additionalItems"), "items"), "prefixItems": value, **rest}
        case "prefixItems" if False in value:
            return _with(node, keyword, value[: value.index(False)])
        case "maxItems" if isinstance(node.get("prefixItems"), list) and isinstance(value, int) and value >= 0:
            return _with(_without(node, "items"), "prefixItems", node["prefixItems"][:value]) | {"items": False}
        case "minItems" if "items" not in node and "unevaluatedItems" not in node and type(value) is int:
            return _with(node, "items", {})
        case _ if keyword in _APPLICATORS:
            return _naming(_without(node, keyword), _names(value, root, _DEPTH))
    return _without(node, keyword)


def _both(parts: list[Mapping[str, Any]]) -> Node:
    """What holds of a value that fits all `parts`: of a keyword that two have, the first is enough, names add up."""
    whole: Node = {}
    for part in parts:
        for key, value in part.items():
            if key == "properties":
                known = whole.get(key, {})
                whole[key] = known | {name: item for name, item in value.items() if name not in known}
            elif key == "required":
                whole[key] = list(dict.fromkeys([*whole.get(key, ()), *value]))
            else:
                whole.setdefault(key, value)
    if any(part.get("additionalProperties", False) is not False or "patternProperties" in part for part in parts):
        whole["additionalProperties"] = True
        whole.pop("patternProperties", None)
    return whole


def _naming_required(node: Node) -> Node:
    """Names that are required are properties; where nothing else may be there, they aren't required."""
    named, more = node.get("properties"), node.get("additionalProperties", node.get("unevaluatedProperties"))
    if more is False or "patternProperties" in node or "propertyNames" in node:
        return _with(node, "required", [name for name in node["required"] if name in (named or {})])
    opened = node if named else _with(node, "additionalProperties", True if more is None else more)
    value = more if isinstance(more, Mapping) else {}
    unknown = {name: value for name in node["required"] if name not in (named or {})}
    return _with(opened, "properties", {**(named or {}), **unknown})


def _naming(node: Node, names: Iterator[str]) -> Node:
    """The names that a dropped keyword allows are properties of any value, in an object that is closed otherwise."""
    named = node.get("properties")
    if not named or node.keys() & {"additionalProperties", "unevaluatedProperties"}:
        return node
    return _with(node, "properties", {**named, **{name: {} for name in names if name not in named}})


def _names(value: object, root: object, depth: int) -> Iterator[str]:
    """The properties that a keyword's schemas name."""
    if depth == 0:
        return
    if isinstance(value, str):
        value = _target(value, root)
    if isinstance(value, list):
        for item in value:
            yield from _names(item, root, depth - 1)
    if isinstance(value, Mapping):
        properties = value.get("properties")
        yield from properties if isinstance(properties, Mapping) else ()
        inner = [value[word] for word in _APPLICATORS if word in value]
        if not inner and not value.keys() & {"properties", "required", "type"}:
            inner = [item for item in value.values() if isinstance(item, Mapping)]  # of `dependentSchemas`
        for item in inner:
            yield from _names(item, root, depth - 1)


def _target(reference: object, root: object) -> Any:
    try:
        return target_of(reference, root)
    except LookupError:
        return {}


def _with(node: Mapping[str, Any], keyword: str, value: object) -> Node:
    return {**node, keyword: value}


def _without(node: Mapping[str, Any], keyword: str) -> Node:
    return {key: value for key, value in node.items() if key != keyword}
