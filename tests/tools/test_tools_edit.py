"""edit_file and replace_function: exact, once, and helpful when they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tools.sandbox import Sandbox
from tools.server import build_server

Call = Callable[..., object]
CALC = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"


@pytest.fixture
def calc(root: Path) -> Path:
    (root / "calc.py").write_text(CALC)
    return root / "calc.py"


def test_an_edit_replaces_and_shows_the_diff(calc: Path, call: Call) -> None:
    reply = call("edit_file", path="calc.py", old="add(a, b):\n    return a - b", new="add(a, b):\n    return a + b")
    assert calc.read_text() == CALC.replace("a - b", "a + b", 1)
    assert reply.text.splitlines()[:2] == ["--- a/calc.py", "+++ b/calc.py"]
    assert "-    return a - b\n+    return a + b" in reply.text


def test_text_that_occurs_twice_is_refused_with_its_lines(calc: Path, call: Call) -> None:
    reply = call("edit_file", path="calc.py", old="return a - b", new="return 0")
    assert reply.failed
    assert "2 times" in reply.text
    assert "lines 2, 6" in reply.text
    assert calc.read_text() == CALC


def test_a_near_miss_shows_the_closest_lines(calc: Path, call: Call) -> None:
    reply = call("edit_file", path="calc.py", old="def sub(x, b):\n    return a - b", new="")
    assert reply.failed
    assert "The closest lines are:\n   5 | def sub(a, b):\n   6 |     return a - b" in reply.text
    assert "white space" not in reply.text


def test_a_near_miss_in_white_space_is_called_one(calc: Path, call: Call) -> None:
    reply = call("edit_file", path="calc.py", old="def sub(a, b):\n\treturn a  - b", new="")
    assert "   5 | def sub(a, b):" in reply.text
    assert "differ in white space only" in reply.text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "x", "use write_file"),
        ("return", "return", "are the same"),
        ("zebra crossing", "x", "copy the text exactly"),
    ],
)
def test_edits_that_cannot_work(calc: Path, call: Call, old: str, new: str, words: str) -> None:
    reply = call("edit_file", path="calc.py", old=old, new=new)
    assert reply.failed
    assert words in reply.text
    assert calc.read_text() == CALC


def test_an_edit_fits_windows_line_ends(calc: Path, call: Call) -> None:
    calc.write_bytes(CALC.replace("\n", "\r\n").encode())
    assert not call(
        "edit_file", path="calc.py", old="add(a, b):\n    return a - b", new="add(a, b):\n    return 9"
    ).failed
    assert calc.read_bytes() == CALC.replace("a - b", "9", 1).replace("\n", "\r\n").encode()


def test_an_edit_that_breaks_python_says_so(calc: Path, call: Call) -> None:
    reply = call("edit_file", path="calc.py", old="def add(a, b):", new="def add(a, b:")
    assert not reply.failed
    assert "note: calc.py does not parse now: line 1" in reply.text


def test_parallel_edits_of_one_file_all_count(root: Path, sandbox: Sandbox) -> None:
    (root / "n.txt").write_text("".join(f"<{n}>\n" for n in range(30)))

    async def go() -> None:
        async with Client(build_server(sandbox)) as client, anyio.create_task_group() as tasks:
            for n in range(30):
                tasks.start_soon(client.call_tool, "edit_file", {"path": "n.txt", "old": f"<{n}>", "new": f"[{n}]"})

    anyio.run(go)
    assert (root / "n.txt").read_text() == "".join(f"[{n}]\n" for n in range(30))


def test_a_function_is_found_by_its_name_alone(calc: Path, root: Path, call: Call) -> None:
    for name in ("test_calc.py", "tests/helper.py", "conftest.py", ".venv/lib/calc.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("def add(): pass\n")
    reply = call("replace_function", code="def add(a, b):\n    return a + b\n")
    assert not reply.failed
    assert calc.read_text() == CALC.replace("a - b", "a + b", 1)
    assert (root / "test_calc.py").read_text() == "def add(): pass\n"


def test_two_functions_of_one_name_are_refused(calc: Path, root: Path, call: Call) -> None:
    (root / "more.py").write_text("class A:\n    def add(self):\n        pass\n")
    reply = call("replace_function", code="def add(a, b):\n    return a + b\n")
    assert reply.failed
    assert "calc.py:1, more.py:2" in reply.text
    assert calc.read_text() == CALC


def test_an_unknown_name_lists_the_closest(calc: Path, call: Call) -> None:
    reply = call("replace_function", code="def adds(a, b):\n    return a + b\n")
    assert reply.failed
    assert "no function named adds" in reply.text
    assert "add" in reply.text.partition("there are: ")[2]


def test_a_file_that_does_not_parse_is_named(calc: Path, call: Call) -> None:
    calc.write_text("def add(a, b)\n    return a - b\n")
    reply = call("replace_function", code="def add(a, b):\n    return a + b\n")
    assert reply.failed
    assert "calc.py (line 1" in reply.text


def test_the_same_code_again_is_an_error(calc: Path, call: Call) -> None:
    reply = call("replace_function", code="def add(a, b):\n    return a - b\n")
    assert reply.failed
    assert "already exactly this code" in reply.text
