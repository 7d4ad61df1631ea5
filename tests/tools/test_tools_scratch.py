"""Temporary folders: gone with their owner, also when it was killed; nobody else's are touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tools.sandbox.scratch import Scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_next_one_removes_what_a_killed_owner_left(temporary):
    lines = (
        "from tools.sandbox.scratch import Scratch; import sys; print(Scratch('x').path, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owner = subprocess.Popen([sys.executable, "-c", lines], env={**os.environ, "TMPDIR": str(temporary)}, **pipes)
    left = owner.stdout.readline().strip()
    try:
        Scratch("x").close()
        assert os.listdir(temporary) == [os.path.basename(left)]
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    Scratch("x").close()
    assert os.listdir(temporary) == []


def test_other_kinds_and_files_stay(temporary):
    kept = {"sapwood-kept-1", "sapwood-y-1"}
    for name in kept:
        (temporary / name).mkdir()
    (temporary / "sapwood-x-file").touch()
    Scratch("x").close()
    assert set(os.listdir(temporary)) == kept | {"sapwood-x-file"}


def test_removing_follows_no_link_and_minds_no_mode(temporary):
    outside = temporary / "outside"
    outside.mkdir(mode=0o700)
    (outside / "file").touch()
    made = Scratch("x")
    os.symlink(outside, made.path / "link")
    (made.path / "closed").mkdir()
    (made.path / "closed" / "file").touch()
    (made.path / "closed").chmod(0)
    outside.chmod(0o500)
    made.close()
    made.close()
    assert os.listdir(temporary) == ["outside"]
    assert (outside.stat().st_mode & 0o777, os.listdir(outside)) == (0o500, ["file"])
