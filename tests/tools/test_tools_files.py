"""read_file, list_files and write_file, as a model meets them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.sandbox import Limits, Sandbox
from tools.text import cut

Call = Callable[..., object]


def test_reading_numbers_the_lines(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("one\n\nthree")
    assert call("read_file", path="a.txt").text == "   1 | one\n   2 | \n   3 | three"


def test_reading_a_range_says_what_is_left(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 10)))
    reply = call("read_file", path="a.txt", start_line=4, end_line=5)
    assert reply.text == "   4 | line 4\n   5 | line 5\n[4 more lines; read on with start_line=6]"


def test_pages_of_a_long_file_follow_on_without_a_gap(root: Path, call: Call) -> None:
    lines = [f"{n} " + "x" * (n % 50) for n in range(1, 1500)]
    (root / "long.txt").write_text("\n".join(lines))
    seen, start = [], 1
    while start:
        *page, last = call("read_file", path="long.txt", start_line=start).text.split("\n")
        start = int(last.rpartition("=")[2].rstrip("]")) if last.startswith("[") else 0
        seen += page if start else [*page, last]
    assert [line.partition(" | ")[2] for line in seen] == lines


@pytest.mark.parametrize(
    ("content", "path", "arguments", "words"),
    [
        (None, "missing.txt", {}, "does not exist"),
        (b"a\0b", "f", {}, "binary file"),
        (b"ok\n\xff\xfe", "f", {}, "not UTF-8 text: byte 0xff in line 2"),
        (b"x" * (5 << 20), "f", {}, "such as: sed -n '1,200p' f"),
        (b"one\n", "f", {"start_line": 7}, "has 1 lines"),
        (b"one\ntwo\n", "f", {"start_line": 2, "end_line": 1}, "before start_line"),
        (b"", "f/inner", {}, "parent that is a file"),
        (None, ".", {}, "is a folder"),
        (None, "", {}, "empty"),
        (None, "\ud800", {}, "file name"),
        (None, "../outside", {}, "outside the sandbox root"),
    ],
)
def test_refusals_say_what_to_do(
    root: Path, call: Call, content: bytes, path: str, arguments: dict, words: str
) -> None:
    if content is not None:
        (root / "f").write_bytes(content)
    reply = call("read_file", path=path, **arguments)
    assert reply.failed
    assert words in reply.text
    assert reply.text.count("\n") < 2
    assert str(root) not in reply.text


def test_bad_arguments_are_one_line_with_the_parameters(call: Call) -> None:
    reply = call("read_file", file="a.txt")
    assert reply.failed
    assert reply.text == (
        "bad arguments for read_file: path: Field required. It takes: path (required), start_line, end_line"
    )


def test_listing_is_sorted_and_leaves_out_caches(root: Path, call: Call) -> None:
    for name in ("b.py", "a/deep/er/est.txt", "a/x.txt", ".git/config", "__pycache__/b.pyc", "node_modules/m/i.js"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "out").symlink_to("/etc")
    assert call("list_files").text == "a/\na/deep/\na/deep/er/\na/x.txt\nb.py\nout"
    assert call("list_files", path="a", depth=1).text == "a/deep/\na/x.txt"
    assert call("list_files", path="out").failed


def test_a_file_name_that_is_not_utf8_can_be_listed(root: Path, call: Call) -> None:
    (root / os.fsdecode(b"caf\xe9.txt")).write_text("")
    reply = call("list_files")
    assert not reply.failed
    assert reply.text == "caf\\udce9.txt"


def test_writing_creates_folders_and_replaces(root: Path, call: Call) -> None:
    assert call("write_file", path="new/dir/a.txt", content="one\ntwo\n").text == "created new/dir/a.txt (2 lines)"
    assert call("write_file", path="new/dir/a.txt", content='{"a": 1}').text == "replaced new/dir/a.txt (1 line)"
    assert (root / "new/dir/a.txt").read_text() == '{"a": 1}'


@pytest.mark.parametrize("path", [".", "folder", "../x", "file/x", ".git/hooks/pre-commit", "a" * 300])
def test_writes_that_are_refused_leave_nothing_behind(root: Path, call: Call, path: str) -> None:
    (root / "folder").mkdir()
    (root / "file").write_text("kept")
    assert call("write_file", path=path, content="x").failed
    assert sorted(entry.name for entry in root.rglob("*")) == ["file", "folder"]
    assert (root / "file").read_text() == "kept"
    assert not (root.parent / "x").exists()


def test_a_long_listing_is_cut_once_at_whole_lines(tmp_path: Path) -> None:
    text = "\n".join(f"file-{n:04}" for n in range(1000))
    head, note, tail = cut(text, 500, "list a subfolder").partition("[... ")
    left_out, _, tail = tail.partition("\n")
    assert note
    assert text.startswith(head)
    assert text.endswith(tail)
    shown = head.count("\n") + len(tail.split("\n"))
    assert left_out == f"{1000 - shown} lines left out; list a subfolder ...]"


def test_limits_come_from_the_sandbox(tmp_path: Path) -> None:
    with Sandbox(tmp_path, Limits(read_bytes=10)) as sandbox:
        (tmp_path / "f").write_bytes(b"x" * 11)
        with pytest.raises(Exception, match="11 bytes, more than the 10"):
            sandbox.jail.read("f", sandbox.limits.read_bytes)


def test_our_own_sessions_are_neither_listed_nor_written(root, call):
    (root / ".sapwood/sessions").mkdir(parents=True)
    (root / ".sapwood/sessions/1.jsonl").write_text("{}\n")
    assert call("list_files").text == ". is empty"
    assert call("search_text", pattern="{").text == "no matches"
    assert "keeps its sessions" in call("write_file", path=".sapwood/sessions/1.jsonl", content="").text


def test_a_long_line_names_the_call_that_shows_its_rest(root, call):
    (root / "a file.txt").write_text("short\n" + "x" * 2000 + "the rest\n")
    text = call("read_file", path="a file.txt").text
    command = text.partition("[line 2 was cut; read on with run_command: ")[2].rstrip("]")
    assert call("run_command", command=command).text == "the rest\n[exit code 0]"


def test_a_file_that_is_too_large_names_the_call_that_reads_it(root, call):
    (root / "big").write_text("line\n" * 1_000_000)
    text = call("read_file", path="big").text
    assert text.endswith("read a part of it with run_command, such as: sed -n '1,200p' big")
