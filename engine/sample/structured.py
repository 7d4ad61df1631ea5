"""What an answer's text must be: JSON, JSON of a schema, one of several texts, a regular expression or a grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.errors import RequestError
from engine.output.reasoning import Room
from engine.sample.grammar import Grammar, GrammarCompiler


class Kind(Enum):
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    CHOICE = "choice"
    REGEX = "regex"
    EBNF = "ebnf"


@dataclass(frozen=True)
class Structure:
    """`value` is a schema, a list of texts, a pattern or a source, by `kind`; `param` is the field that asked."""

    kind: Kind
    value: Any
    param: str
    strict: bool = False


def grammar_of(
    compiler: GrammarCompiler,
    structure: Structure | None,
    calls: Mapping[str, Any] | None = None,
    room: Room | None = None,
) -> Grammar | None:
    """The grammar of an answer that has this structure or consists of tool calls (the structural tag `calls`).

    `room` is for the reasoning in front of a structure. Raises RequestError for what can't be compiled or enforced.
    """
    if structure is None:
        return compiler.structural_tag(calls) if calls is not None else None
    text = _compile(compiler, structure)
    answer = text if calls is None else compiler.either(text, compiler.structural_tag(calls))
    return answer if room is None else compiler.behind(room.tag, answer, optional=room.optional, param=structure.param)


def _compile(compiler: GrammarCompiler, structure: Structure) -> Grammar:
    value, param = structure.value, structure.param
    match structure.kind:
        case Kind.JSON_OBJECT:
            return compiler.json_object()
        case Kind.JSON_SCHEMA:
            return compiler.json_schema(_schema(value, param), structure.strict, param=param)
        case Kind.CHOICE:
            return compiler.ebnf(_one_of(value, param), param=param)
        case Kind.REGEX:
            return compiler.regex(value, param=param)
        case Kind.EBNF:
            return compiler.ebnf(value, param=param)


def _schema(value: Any, param: str) -> Any:
    """A schema, or the JSON text of one."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise RequestError(f"{param} is no JSON.", code="invalid_schema", param=param) from None


def _one_of(values: list[str], param: str) -> str:
    if not values or not all(values):
        raise RequestError(f"{param} needs at least one text, none of them empty.", code="invalid_value", param=param)
    return "root ::= " + " | ".join(_literal(value) for value in values)


def _literal(text: str) -> str:
    return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'
