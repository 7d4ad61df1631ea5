"""Finds a Python function by its name and puts another in its place, line by line. No files, no sandbox."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from tools.errors import ToolFault

Function = ast.FunctionDef | ast.AsyncFunctionDef
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class NewFunction:
    """One function as a model wrote it, without a margin."""

    name: str
    code: str
    has_decorators: bool
    held_lines: frozenset[int]
    """Lines, from 1, that begin inside a string, where an added margin would change a value."""


def parse_function(code: str) -> NewFunction:
    """The one function in `code`, with or without a code fence around it. ToolFault for anything else."""
    plain = textwrap.dedent(_without_fence(code).replace("\r\n", "\n")).strip("\n").rstrip()
    try:
        body = ast.parse(plain).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolFault(f"the code does not parse: {syntax_reason(error)}") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        found = ", ".join(type(node).__name__ for node in body[:5]) or "nothing"
        raise ToolFault(f"the code must be exactly one function, def line and body; it has: {found}")
    function = body[0]
    return NewFunction(function.name, plain, bool(function.decorator_list), _held_lines(function))


def find_functions(text: str, name: str) -> list[Function]:
    """Every function or method called `name`, in the order of the text. Raises SyntaxError, as ast does."""
    tree = ast.parse(text.removeprefix(_BYTE_ORDER_MARK))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name]
    return sorted(found, key=lambda node: node.lineno)


def function_names(text: str) -> set[str]:
    """The names of all functions in a text that parses; an empty set otherwise."""
    try:
        tree = ast.parse(text.removeprefix(_BYTE_ORDER_MARK))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def splice(text: str, old: Function, new: NewFunction) -> str:
    """`text` with the lines of `old` replaced. The old decorators stay if the new function has none."""
    keep_decorators = not new.has_decorators
    first = old.lineno if keep_decorators or not old.decorator_list else old.decorator_list[0].lineno
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    lines = text.removeprefix(mark).split("\n")
    end = "\r" if lines[first - 1].endswith("\r") else ""
    margin = _margin(lines[first - 1])
    fresh = [
        (margin if line and number not in new.held_lines else "") + line + end
        for number, line in enumerate(new.code.split("\n"), 1)
    ]
    assert old.end_lineno is not None
    if not lines[old.end_lineno - 1].endswith("\r"):
        fresh[-1] = fresh[-1].removesuffix("\r")
    return mark + "\n".join(lines[: first - 1] + fresh + lines[old.end_lineno :])


def check_parses(text: str) -> str | None:
    """Why a Python text does not parse; None if it does."""
    try:
        ast.parse(text.removeprefix(_BYTE_ORDER_MARK))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return syntax_reason(error)
    return None


def syntax_reason(error: BaseException) -> str:
    """One line for a failure to parse."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_fence(code: str) -> str:
    lines = code.strip("\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    if fences and fences[0] == 0:
        return "\n".join(lines[1 : fences[1] if len(fences) > 1 else None])
    return "\n".join(lines[: fences[0]] if fences else lines)


def _held_lines(function: Function) -> frozenset[int]:
    docstring = function.body[0].value if isinstance(function.body[0], ast.Expr) else None
    strings = (
        node
        for node in ast.walk(function)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    )
    spans = (range(node.lineno + 1, (node.end_lineno or 0) + 1) for node in strings if node is not docstring)
    return frozenset(line for span in spans for line in span)
