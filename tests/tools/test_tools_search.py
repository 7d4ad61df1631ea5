"""search_text and find_files: sorted, bounded, inside the root, and never stuck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import search
from tools.walk import matches

Call = Callable[..., object]


@pytest.fixture
def tree(root: Path) -> Path:
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\ndef Alpha():\n    pass\n")
    (root / "src" / "deep" / "b.c").write_text("int alpha;\n")
    (root / "z.bin").write_bytes(b"alpha\0alpha")
    (root.parent / "secret.txt").write_text("alpha secret\n")
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    return root


def test_matches_have_file_and_line(tree: Path, call: Call) -> None:
    assert call("search_text", pattern="alpha").text == "src/deep/b.c:1: int alpha;"
    assert call("search_text", pattern="ALPHA", ignore_case=True).text == (
        "src/a.py:2: def Alpha():\nsrc/deep/b.c:1: int alpha;"
    )
    assert call("search_text", pattern=r"^\w+ \w+\(", glob="*.py").text == "src/a.py:2: def Alpha():"
    assert call("search_text", pattern="alpha", path="src/deep/b.c").text == "src/deep/b.c:1: int alpha;"
    assert call("search_text", pattern="nowhere").text == "no matches"


def test_many_matches_are_bounded(root: Path, call: Call) -> None:
    (root / "many.txt").write_text("hit\n" * 100_000)
    reply = call("search_text", pattern="hit")
    assert reply.text.count("many.txt:") == 100
    assert reply.text.endswith("[only the first 100 matches; narrow the pattern, path or glob]")


def test_long_lines_are_bounded(root: Path, call: Call) -> None:
    (root / "long.txt").write_text("hit" + "x" * 1_000_000)
    assert len(call("search_text", pattern="hit").text) < 400


def test_a_bad_pattern_is_explained(tree: Path, call: Call) -> None:
    reply = call("search_text", pattern="(unclosed")
    assert reply.failed
    assert "not a valid regular expression" in reply.text


def test_a_pattern_without_end_is_stopped(root: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SEARCH_SECONDS", 1.0)
    (root / "a.txt").write_text("a" * 60 + "!\n")
    reply = call("search_text", pattern="(a+)+$")
    assert reply.failed
    assert "took longer than 1 s" in reply.text


@pytest.mark.parametrize("path", ["..", "/etc", "missing"])
def test_folders_outside_or_missing_are_refused(tree: Path, call: Call, path: str) -> None:
    assert call("search_text", pattern="x", path=path).failed
    assert call("find_files", pattern="*", path=path).failed


def test_files_are_found_by_glob(tree: Path, call: Call) -> None:
    assert call("find_files", pattern="*.py").text == "src/a.py"
    assert call("find_files", pattern="src/**/*.c").text == "src/deep/b.c"
    assert call("find_files", pattern="*", path="src").text == "src/a.py\nsrc/deep/b.c"
    assert call("find_files", pattern="*.rs").text == "no files match"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a/b/c.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("a/**/*.py", "a/b/d/c.py", True),
        ("**/c.py", "c.py", True),
        ("**", "a/b", True),
        ("**/*", "a/b", True),
        ("./a/c.py", "a/c.py", True),
        ("**/" * 40 + "x", "a/" * 60 + "y", False),
    ],
)
def test_globs(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected
