"""check_code beyond compilers: ruff's errors, commands of one's own, and the forms that are read."""

from __future__ import annotations

import pytest

from tools import checkers
from tools.diagnostics import Diagnostic, parse_lines, parse_ruff

needs_ruff = pytest.mark.skipif(not checkers._ruff(), reason="ruff is not here")


@needs_ruff
def test_ruff_tells_what_a_compiler_does_not(root, call):
    (root / "a.py").write_text("import os\n\n\ndef f():\n    return nowhere\n")
    (root / "b.py").write_text("x = (\n")
    reply = call("check_code")
    rows = [(row["file"], row["line"], row["severity"], row["message"][:4]) for row in reply.data["diagnostics"]]
    assert rows == [
        ("b.py", 1, "error", "Synt"),
        ("a.py", 1, "warning", "F401"),
        ("a.py", 5, "warning", "F821"),
    ]
    assert "a.py:5:12: warning: F821 " in reply.text
    assert sorted(path.name for path in root.iterdir()) == ["a.py", "b.py"]


@needs_ruff
def test_the_project_s_own_settings_for_ruff_hold(root, call):
    (root / "ruff.toml").write_text('[lint.per-file-ignores]\n"a.py" = ["F401"]\n')
    (root / "a.py").write_text("import os\nx=1;\n")
    assert call("check_code").text == "no problems in 1 file"
    (root / "ruff.toml").write_text("not toml")
    reply = call("check_code")
    assert reply.text.startswith("no problems in 1 file\nnote: the ruff check failed: ")


def test_a_ruff_in_the_root_is_not_run(root, monkeypatch):
    (root / "ruff").write_text("#!/bin/sh\n")
    (root / "ruff").chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert checkers._ruff() is None or not checkers._ruff().startswith(str(root))


def test_a_command_of_one_s_own(root, serve):
    call = serve(checks={"*.txt": "grep -Hn bad {files} /dev/null | sed 's/$/ word/; s/:bad/: bad/'; exit 1"})
    (root / "a b.txt").write_text("good\nbad\n")
    (root / "c.py").write_text("x = 1\n")
    reply = call("check_code")
    assert reply.text == "a b.txt:2:1: error: bad word"
    assert reply.data["files"] == 2
    assert call("check_code", path="a b.txt").text == "a b.txt:2:1: error: bad word"


def test_a_command_that_fails_without_a_word_that_can_be_read_is_shown(root, serve):
    (root / "a.txt").touch()
    reply = serve(checks={"*.txt": "echo 12:30:45: it broke; exit 2"})("check_code")
    assert reply.failed
    assert reply.text.endswith("check failed: 12:30:45: it broke")
    assert serve(checks={"*.txt": "true"})("check_code").text == "no problems in 1 file"


def test_kinds_of_files_are_named(root, serve):
    (root / "a.md").touch()
    call = serve(checks={"*.txt": "true"})
    assert call("check_code", path="a.md").text == "'a.md' is not a Python, C, C++ or *.txt file"
    assert call("check_code").text == "there are no Python, C, C++ or *.txt files in '.'"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("src/a.ts(3,5): error TS2322: Type 'x'", Diagnostic("src/a.ts", 3, 5, "error", "TS2322: Type 'x'")),
        ("src/main.rs:2:5: error[E0425]: cannot find", Diagnostic("src/main.rs", 2, 5, "error", "cannot find")),
        ("./x.go:5:2: undefined: y", Diagnostic("./x.go", 5, 2, "error", "undefined: y")),
        ("a.py:1: error: Name 'x'  [name-defined]", Diagnostic("a.py", 1, 1, "error", "Name 'x'  [name-defined]")),
        ("a.sh:1:2: warning: quote [SC2086]", Diagnostic("a.sh", 1, 2, "warning", "quote [SC2086]")),
        ("a(1).c:3:2: error: no", Diagnostic("a(1).c", 3, 2, "error", "no")),
    ],
)
def test_forms_that_are_read(line, expected):
    assert parse_lines(f"noise\n{line}\n") == [expected]


@pytest.mark.parametrize("line", ["a.c:3:2: note: declared here", "see https://x.org:80/", "a.c: In function 'f':", ""])
def test_forms_that_are_not_complaints(line):
    assert parse_lines(line) == []


def test_syntax_errors_are_left_to_the_compiler():
    assert parse_ruff('{"code": null}\n{"code": "invalid-syntax"}\nwarning: old\n') == []
