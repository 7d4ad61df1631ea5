"""Who is accused by a failing test."""

from __future__ import annotations

import os
import re

import pytest

from agents.profiles.suspect import suspects
from agents.verdict import Failure

CODE = """\
import functools


def good(x):
    return helper(x)


@functools.cache
def helper(x):
    return x / 0


class Box:
    async def put(self, x):
        return x
"""
TEST = """\
from code_ import good


class TestIt:
    def test_good(self):
        assert good(1) == 1


def test_box(box):
    assert box.put(1)
"""


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "code_.py").write_text(CODE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TEST)
    (tmp_path / "broken.py").write_text("def good(:\n")
    return tmp_path


def names(repo, *failures):
    return [suspect.name for suspect in suspects(repo, failures)]


def test_the_function_that_the_test_calls(repo):
    [suspect] = suspects(repo, [Failure("tests/test_it.py::TestIt::test_good[1]", "assert 2 == 1")])
    assert (suspect.path, suspect.name) == ("pkg/code_.py", "good")
    assert suspect.source == "def good(x):\n    return helper(x)"


def test_the_innermost_function_in_the_traceback_comes_first(repo):
    failure = Failure("tests/test_it.py::TestIt::test_good", "ZeroDivisionError", "pkg/code_.py", 10)
    [suspect] = suspects(repo, [failure])
    assert suspect.source == "def helper(x):\n    return x / 0"


def test_a_traceback_within_the_test_accuses_what_it_calls(repo):
    assert names(repo, Failure("tests/test_it.py::TestIt::test_good", "assert", "tests/test_it.py", 6)) == ["good"]


def test_methods_are_dedented_and_keep_their_async(repo):
    [suspect] = suspects(repo, [Failure("tests/test_it.py::test_box", "assert")])
    assert suspect.source == "async def put(self, x):\n    return x"
    assert re.match(suspect.opening, "async def put(self, y):")
    assert not re.match(suspect.opening, "def put(")


def test_more_failures_accuse_more(repo):
    box, good = "tests/test_it.py::test_box", "tests/test_it.py::TestIt::test_good"
    assert names(repo, Failure(box, ""), Failure(good, ""), Failure(good, "")) == ["good", "put"]


@pytest.mark.parametrize("test", ["", "nowhere.py::test_x", "tests/test_it.py::test_gone"])
def test_nobody_is_accused_without_evidence(repo, test):
    assert names(repo, Failure(test, "boom")) == []


def test_only_files_of_the_repository_are_read(tmp_path):
    repo = tmp_path / "repo"
    repo.mkdir()
    (tmp_path / "outside.py").write_text("def secret(): pass\n")
    os.symlink("../outside.py", repo / "link.py")
    os.symlink("nowhere", repo / "dangling.py")
    os.mkfifo(repo / "pipe.py")
    (repo / "deep.py").write_text("x = " + "-" * 100_000 + "1\n")
    (repo / "test_a.py").write_text("def test_a(): secret()\n")
    assert suspects(repo, [Failure("test_a.py::test_a", "m", "link.py", 1)]) == []
