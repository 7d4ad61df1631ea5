"""search_text and find_files: sorted, bounded, inside the root, and never stuck."""

from __future__ import annotations

import os
import shutil
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


@pytest.fixture
def forest(root: Path) -> Path:
    """More files than ripgrep is left out for."""
    texts = [
        "alpha\nbeta\r\n",
        "int x = 1;  // TODO\n",
        "a\x0cb\n\n",
        "ALPHA_1\n\talpha(2)\n",
        "caf\u00e9 \u03b1\n",
        "",
    ]
    for number in range(60):
        folder = root / f"d{number % 3}" / (".hidden" if number % 4 == 0 else "open")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.txt").write_text(texts[number % len(texts)])
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x.js").write_text("alpha\n")
    (root / ".gitignore").write_text("d0\n")
    (root / "bin").write_bytes(b"alpha\0" * 2000)
    return root


PATTERNS = (
    "alpha",
    r"^\w+$",
    r"\balpha\b",
    "[a-c]+",
    "a|TODO",
    r"x\s*=\s*\d",
    "^$",
    r"(?i)alpha",
    ".",
    r"\S$",
    "é",
    r"\)$",
)


@pytest.mark.skipif(not shutil.which("rg"), reason="ripgrep is not here")
@pytest.mark.parametrize("pattern", [*PATTERNS, r"(a)\1", r"(?<=a)l", r"\<alpha", "[[a]", "{"])
def test_ripgrep_changes_nothing_but_the_time(
    forest: Path, call: Call, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    asked = [{"pattern": pattern, "ignore_case": case, "path": path} for case in (False, True) for path in (".", "d0")]
    quick = [call("search_text", **one).text for one in asked]
    monkeypatch.setattr(search.shutil, "which", lambda name: None)
    assert [call("search_text", **one).text for one in asked] == quick


def test_ripgrep_chooses_among_our_files_or_is_done_without(
    forest: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = forest.parent / "bin" / "rg"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    everything = call("search_text", pattern="alpha", path=".", glob="*.txt").text
    for script, expected in (
        ("printf './d0/open/f6.txt\\0./node_modules/x.js\\0./etc/passwd\\0'", "d0/open/f6.txt:1: alpha"),
        ("exit 1", "no matches"),
        ("printf 'x\\0'; exit 2", None),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert call("search_text", pattern="alpha", glob="*.txt").text == (expected or everything)


def test_lines_are_counted_as_compilers_count_them(root: Path, call: Call) -> None:
    (root / "a.c").write_text("one\x0ctwo\u2028three\r\nint alpha;\n")
    assert call("search_text", pattern="^int").text == "a.c:2: int alpha;"
    assert call("read_file", path="a.c").text.splitlines()[-1] == "   2 | int alpha;"


def test_more_entries_than_are_looked_at_is_said(root: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.walk.MAX_ENTRIES", 3)
    for name in "abcde":
        (root / name).write_text("hit\n")
    for tool, arguments in (("list_files", {}), ("find_files", {"pattern": "*"}), ("search_text", {"pattern": "hit"})):
        text = call(tool, **arguments).text
        assert "e" not in text.split("[only")[0].split()
        assert text.endswith("[only the first 3 entries were looked at; give a subfolder as path]")
