"""What a parser finds in one source file: names that it defines and names that it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TEST_FOLDERS = {"test", "tests", "testing", "__tests__", "spec"}
_TEST_NAME = re.compile(r"(test_.*|.*(_test|_spec|\.test|\.spec|Tests?))\.[^.]+|conftest\.py")


@dataclass(frozen=True)
class Definition:
    name: str
    line: int
    """From 1."""
    depth: int
    """How many definitions of the same file it lies in."""
    text: str
    """The signature, on one line."""
    is_scope: bool = False
    """It only groups what lies in it (a namespace, an `impl`), and defines no name."""


@dataclass(frozen=True)
class FileTags:
    path: str
    definitions: tuple[Definition, ...] = ()
    """In the order of the file."""
    names: Mapping[str, int] = field(default_factory=dict)
    """How often each name is used."""
    members: Mapping[str, int] = field(default_factory=dict)
    """How often each name is used behind a dot."""

    @property
    def is_test(self) -> bool:
        return is_test(self.path)


def is_test(path: str) -> bool:
    *folders, name = path.split("/")
    return bool(_TEST_FOLDERS.intersection(folders) or _TEST_NAME.fullmatch(name))
