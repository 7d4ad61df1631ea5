import subprocess

import pytest


@pytest.fixture(scope="module")
def merge(tmp_path_factory):
    program = tmp_path_factory.mktemp("build") / "merge"
    done = subprocess.run(["c++", "-std=c++17", "-o", program, "merge.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return lambda text: subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout


def test_apart(merge):
    assert merge("7 9\n1 2\n") == "1 2\n7 9\n"


def test_overlapping(merge):
    assert merge("1 5\n3 8\n") == "1 8\n"


def test_touching_in_a_chain(merge):
    assert merge("5 6\n1 3\n3 5\n9 9\n") == "1 6\n9 9\n"


def test_one_inside_another(merge):
    assert merge("1 10\n2 3\n") == "1 10\n"
