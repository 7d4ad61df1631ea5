import ctypes
import subprocess

import pytest


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("build") / "library.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", built, "words.c"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("one", 1), ("one two three", 3), ("two  spaces", 2), (" around ", 1), ("\t\n", 0)],
)
def test_count_words(library, text, words):
    assert library.count_words(text.encode()) == words
