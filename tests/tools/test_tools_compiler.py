"""check_code: diagnostics with file, line, column and message, and nothing is run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.diagnostics import Diagnostic, parse_lines

Call = Callable[..., object]
needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
needs_cxx = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler here")


def test_python_errors_and_warnings(root: Path, call: Call) -> None:
    (root / "bad.py").write_text("x = 1\ny = (\nz = 2\n")
    (root / "warned.py").write_text("x = 1 is 1\nraise SystemExit('was run')\n")
    rows = call("check_code").data["diagnostics"]
    assert [(row["file"], row["line"], row["severity"]) for row in rows] == [
        ("bad.py", 2, "error"),
        ("warned.py", 1, "warning"),
    ]
    assert "was never closed" in rows[0]["message"]
    assert call("check_code", path="bad.py").text.startswith("bad.py:2:5: error: SyntaxError")
    assert sorted(entry.name for entry in root.iterdir()) == ["bad.py", "warned.py"]


@pytest.mark.parametrize("text", [b"x = '\xff'\n", b"x = 1\0\n", b"x = " + b"(" * 5000 + b")" * 5000])
def test_python_that_cannot_be_read_is_a_diagnostic(root: Path, call: Call, text: bytes) -> None:
    (root / "bad.py").write_bytes(text)
    assert call("check_code", path="bad.py").data["diagnostics"][0]["severity"] == "error"


def test_good_code_says_so(root: Path, call: Call) -> None:
    (root / "-odd name.py").write_text("x = 1\n")
    assert call("check_code").text == "no problems in 1 file"


@needs_cc
def test_c_errors(root: Path, call: Call) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.c").write_text('#include "a.h"\nint main(void) {\n  int unused;\n  return x\n}\n')
    (root / "src" / "a.h").write_text("int f(void);\n")
    reply = call("check_code")
    rows = reply.data["diagnostics"]
    assert {(row["file"], row["line"], row["severity"]) for row in rows} >= {
        ("src/a.c", 4, "error"),
        ("src/a.c", 3, "warning"),
    }
    assert "src/a.c:4:10: error: " in reply.text
    assert "undeclared" in reply.text


@needs_cxx
def test_cpp_errors(root: Path, call: Call) -> None:
    (root / "a.cpp").write_text("#include <string>\nstd::string f() { return std::strin(); }\n")
    row = call("check_code", path="a.cpp").data["diagnostics"][0]
    assert (row["file"], row["line"], row["severity"]) == ("a.cpp", 2, "error")
    (root / "a.cpp").write_text("#include <string>\nstd::string f() { return {}; }\n")
    assert call("check_code", path="a.cpp").text == "no problems in 1 file"


def test_a_missing_compiler_is_said(root: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.c").write_text("int x;\n")
    monkeypatch.setattr("tools.checkers.shutil.which", lambda name: None)
    reply = call("check_code", path="a.c")
    assert reply.failed
    assert "no C compiler here" in reply.text


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing.py", "does not exist"), ("a.txt", "is not a Python"), (".", "no Python"), ("..", "outside")],
)
def test_refusals(root: Path, call: Call, path: str, words: str) -> None:
    (root / "a.txt").write_text("text")
    reply = call("check_code", path=path)
    assert reply.failed
    assert words in reply.text


def test_both_compilers_forms_are_read() -> None:
    output = (
        "./a.c: In function 'main':\n./a.c:3:7: fatal error: no.h: No such file\n   3 | x\na.c:9: warning: old\nnote\n"
    )
    assert parse_lines(output) == [
        Diagnostic("./a.c", 3, 7, "error", "no.h: No such file"),
        Diagnostic("a.c", 9, 1, "warning", "old"),
    ]


def test_a_pipe_is_not_compiled(call, root):
    os.mkfifo(root / "pipe.py")
    (root / "a.py").write_text("x = 1\n")
    assert call("check_code").text == "no problems in 1 file"
