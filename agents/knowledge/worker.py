"""A process that parses source files: a file made to break a parser breaks this process, not the agent.

It reads a JSON job from standard input and writes a line of JSON for each file, in the order of the job, so that the
first one without a line is the one that it died of.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from agents.knowledge.languages import Language, language_of
from agents.knowledge.tags import Definition, FileTags
from tools.errors import PathFault
from tools.sandbox.jail import Jail

MEMORY_BYTES = 1 << 30
FILE_BYTES = 128 << 10
"""A larger source file was hardly written by a person."""
STEPS = 20_000
"""Reports of progress until a parse is given up; of the same file, always at the same place."""
LINE_BYTES = 300
"""On average; longer ones are minified or data."""
_CHUNK = 1 << 16
_SIGNATURE = 140
_DEEPEST = 6


class _Tagger:
    def __init__(self, language: Language) -> None:
        import tree_sitter

        self._cursor = tree_sitter.QueryCursor
        grammar = tree_sitter.Language(language.grammar())
        self._parser = tree_sitter.Parser(grammar)
        self._definitions = tree_sitter.Query(grammar, language.definitions)
        self._references = tree_sitter.Query(grammar, language.references)

    def tags(self, path: str, source: bytes) -> FileTags:
        tree = self._parse(source)
        if tree is None:
            return FileTags(path)
        used = self._cursor(self._references).captures(tree.root_node)
        names, members = (Counter(_text(node) for node in used.get(kind, ())) for kind in ("name", "member"))
        return FileTags(path, tuple(self._defined(tree.root_node, source)), names, members)

    def _parse(self, source: bytes) -> Any:
        steps = 0

        def tired(_: int, __: bool) -> bool:
            nonlocal steps
            steps += 1
            return steps > STEPS

        try:
            return self._parser.parse(lambda at, _: source[at : at + _CHUNK], progress_callback=tired)
        except ValueError:  # given up
            self._parser.reset()
            return None

    def _defined(self, root: Any, source: bytes) -> list[Definition]:
        found: list[Definition] = []
        around: list[tuple[int, bool]] = []  # the end of each definition that this one lies in; whether it is local
        for node, kind, name in sorted(
            self._matches(root), key=lambda match: (match[0].start_byte, -match[0].end_byte)
        ):
            while around and around[-1][0] <= node.start_byte:
                around.pop()
            if (around and around[-1][1]) or len(around) > _DEEPEST:
                continue
            text = _signature(node, name, source)
            found.append(Definition(name, node.start_point[0] + 1, len(around), text, kind == "scope"))
            around.append((node.end_byte, kind == "function"))
        return found

    def _matches(self, root: Any) -> list[tuple[Any, str, str]]:
        seen: dict[int, tuple[Any, str, str]] = {}
        for _, captures in self._cursor(self._definitions).matches(root):
            kind = next(kind for kind in captures if kind != "name")
            node = captures[kind][0]
            seen.setdefault(node.id, (node, kind, _text(captures["name"][0])))
        return list(seen.values())


def tags_of(path: str, source: bytes) -> FileTags:
    """Nothing for what is not source text."""
    language = language_of(path)
    if language is None or b"\0" in source or len(source) > LINE_BYTES * (source.count(b"\n") + 1):
        return FileTags(path)
    return _tagger(language).tags(path, source)


def main() -> None:
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    jail = Jail(Path(job["root"]))
    for path in job["paths"]:
        print(json.dumps(_encode(_read(jail, path))), flush=True)


def decode(line: bytes) -> FileTags:
    """What a worker wrote about a file."""
    path, definitions, names, members = json.loads(line)
    return FileTags(path, tuple(Definition(*fields) for fields in definitions), names, members)


def _encode(tags: FileTags) -> list[Any]:
    fields = [[each.name, each.line, each.depth, each.text, each.is_scope] for each in tags.definitions]
    return [tags.path, fields, tags.names, tags.members]


def _read(jail: Jail, path: str) -> FileTags:
    try:
        return tags_of(path, jail.read(path, FILE_BYTES))
    except PathFault:  # gone, unreadable or grown
        return FileTags(path)


@cache
def _tagger(language: Language) -> _Tagger:
    return _Tagger(language)


def _text(node: Any) -> str:
    return str(node.text.decode(errors="replace"))


def _signature(node: Any, name: str, source: bytes) -> str:
    """Up to the body, or the first line of what has none."""
    body = node.child_by_field_name("body")
    end = body.start_byte if body else node.end_byte
    head = source[node.start_byte : min(end, node.start_byte + 4 * _SIGNATURE)].decode(errors="replace")
    text = " ".join((head if body else head.partition("\n")[0]).split()).rstrip(" {:;=")
    if name not in text:
        text = f"{text} … {name}"
    return text if len(text) <= _SIGNATURE else text[: _SIGNATURE - 1] + "…"
