"""Text that looks like a coding agent's day: rules and file trees, tasks, compiler errors, code, test output.

Every function is an endless stream of paragraphs drawn from a seeded source, so that a run can be repeated exactly and
no two clients see the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

VERBS = ("load", "merge", "split", "parse", "render", "apply", "check", "collect", "resolve", "update", "find", "drop")
NOUNS = (
    "ledger",
    "page",
    "queue",
    "token",
    "header",
    "route",
    "session",
    "branch",
    "record",
    "cursor",
    "digest",
    "node",
)
TYPES = ("int", "str", "float", "bytes", "list[int]", "dict[str, int]", "str | None")
FOLDERS = ("core", "store", "web", "jobs", "common", "report")
RULES = (
    "Read a file before you edit it, and never overwrite what you have not read.",
    "Keep functions short; raise an error that names the {noun} and says what to do.",
    "Run the tests of {module} after every change to it, and quote the first failure.",
    "Do not add a dependency to {verb} a {noun}: the standard library is enough.",
    "Use the {verb}_{noun} tool for files under {folder}/; its paths are relative to the root.",
    "A {noun} belongs to one owner. When it moves, {verb} it and tell the caller.",
)
TASKS = (
    "The function {name} in {module} returns the wrong {noun} when the list of {noun}s is empty.",
    "Please make {name} in {module} {verb} each {noun} once, and keep the order that callers rely on.",
    "Since release {number}, {module} fails to {verb} a {noun} that holds more than {number} entries.",
    "Add a test that shows the failure first, then change as little as possible in {module}.",
    "The caller in {module} already catches KeyError, so do not turn it into another exception.",
)
ERRORS = (
    '{module}:{number}: error: Argument 1 to "{name}" has incompatible type "{type}"; expected "{type2}"  [arg-type]',
    '{module}:{number}: error: Incompatible return value type (got "{type}", expected "{type2}")  [return-value]',
    '{module}:{number}: error: Item "None" of "{type2} | None" has no attribute "{noun}"  [union-attr]',
    '{module}:{number}: note: "{name}" was defined here with {digit} parameters',
    '{module}:{number}: error: Name "{noun}_{digit}" is not defined  [name-defined]',
)
STATEMENTS = (
    "    {noun}_{digit} = self.{noun}s.get(key, {number})",
    "    if {noun}_{digit} > {number}:\n        raise ValueError(f'{noun} {{key}} is past {number}')",
    "    for index, {noun} in enumerate(self.{noun}s[{digit}:]):\n        total += {name}({noun}, index)",
    "    with self.lock:\n        self.{noun}s[key] = {name}(self.{noun}s.pop(key), limit={number})",
    "    log.debug('%s: {verb} %d {noun}s', key, len(self.{noun}s))",
)
TESTS = (
    "tests/test_{noun}.py::test_{name}[{number}] PASSED                                   [ {digit}{digit}%]",
    "tests/test_{noun}.py::test_{name}[{number}] FAILED                                   [ {digit}{digit}%]",
    "E       AssertionError: assert {name}({number}) == {number2}\nE        +  where {number} = len({noun}s)",
    "    def test_{name}():\n>       assert {name}([{digit}, {number}]) == {number2}",
)


def rules(source: Random) -> Iterator[str]:
    """A system prompt: rules, with a file tree between them."""
    while True:
        yield from (_fill("- " + rule, source) for rule in source.sample(RULES, 3))
        yield "\n".join(_fill(f"  {{module}}  {source.randrange(9_000)} bytes", source) for _ in range(4))


def tasks(source: Random) -> Iterator[str]:
    return _endless(TASKS, source)


def compiler_errors(source: Random) -> Iterator[str]:
    return _endless(ERRORS, source)


def code(source: Random) -> Iterator[str]:
    """Whole functions."""
    while True:
        head = _fill("def {name}(self, key: {type}, limit: {type2}) -> {type}:\n    total = {digit}", source)
        body = [_fill(statement, source) for statement in source.sample(STATEMENTS, 3)]
        yield "\n".join([head, *body, "    return total\n"])


def pytest_output(source: Random) -> Iterator[str]:
    return _endless(TESTS, source)


def _endless(templates: tuple[str, ...], source: Random) -> Iterator[str]:
    while True:
        yield _fill(source.choice(templates), source)


def _fill(template: str, source: Random) -> str:
    noun, verb = source.choice(NOUNS), source.choice(VERBS)
    name = f"{verb}_{source.choice(NOUNS)}"
    return template.format(
        noun=noun,
        verb=verb,
        name=name,
        folder=source.choice(FOLDERS),
        module=f"{source.choice(FOLDERS)}/{source.choice(NOUNS)}_{source.choice(NOUNS)}.py",
        type=source.choice(TYPES),
        type2=source.choice(TYPES),
        digit=source.randrange(10),
        number=source.randrange(10, 1000),
        number2=source.randrange(10, 1000),
    )
