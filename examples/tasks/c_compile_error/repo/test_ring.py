import ctypes
import subprocess

import pytest


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("build") / "library.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", built, "ring.c"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


class Ring(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 4), ("start", ctypes.c_size_t), ("used", ctypes.c_size_t)]


@pytest.fixture
def ring(library):
    ring = Ring(start=9, used=9)
    library.ring_clear(ctypes.byref(ring))
    return ring


def contents(library, ring):
    popped = [library.ring_pop(ctypes.byref(ring)) for _ in range(5)]
    return popped[: popped.index(-1)]


def test_an_empty_ring(library, ring):
    assert contents(library, ring) == []


def test_first_in_first_out(library, ring):
    for byte in (1, 255, 3):
        library.ring_push(ctypes.byref(ring), byte)
    assert contents(library, ring) == [1, 255, 3]


def test_the_oldest_is_overwritten(library, ring):
    for byte in range(6):
        library.ring_push(ctypes.byref(ring), byte)
    assert contents(library, ring) == [2, 3, 4, 5]
