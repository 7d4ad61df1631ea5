"""No path leaves the root: resolved, read or written, honest or hostile."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.errors import PathFault
from tools.sandbox.jail import Jail

SECRET, INSIDE = b"SECRET outside", b"fine inside"
PIECES = [
    *("..", ".", "", "/", "out", "up", "self", "here", "dir", "deep", "file.txt", "loop", "dangling", "link.txt"),
    *("secret.txt", "etc", "passwd", "proc", "self/root", "new", "~", "a" * 300, "\0", "\ud800", "é", " ", "-x"),
]
PATHS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("/".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=6).map("/".join),
    st.text(max_size=30),
)


def build(base: Path) -> Jail:
    root = base / "root"
    (root / "dir").mkdir(parents=True)
    (base / "secret.txt").write_bytes(SECRET)
    (root / "file.txt").write_bytes(INSIDE)
    (root / "out").symlink_to("/")
    (root / "up").symlink_to("..")
    (root / "self").symlink_to(".")
    (root / "here").symlink_to(root / "dir")
    (root / "dir" / "deep").symlink_to("../../../..")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to(base / "not-there")
    (root / "link.txt").symlink_to(base / "secret.txt")
    return Jail(root)


def outside(base: Path) -> list[str]:
    return sorted(entry.name for entry in base.iterdir())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jail")


@given(path=PATHS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_escapes(shared: Path, path: str) -> None:
    shutil.rmtree(shared)
    jail = build(shared)
    before = outside(shared)
    for variant in (path, f"{jail.root}/{path}"):
        try:
            real = jail.resolve(variant)
        except PathFault:
            continue
        assert real.is_relative_to(jail.root)
        assert os.path.realpath(real) == str(real) or "loop" in variant
        check_read_and_write(jail, variant)
    assert outside(shared) == before
    assert (shared / "secret.txt").read_bytes() == SECRET


def check_read_and_write(jail: Jail, path: str) -> None:
    with contextlib.suppress(PathFault):
        assert jail.read(path, 1 << 16) == INSIDE
    try:
        jail.write(path, INSIDE)
    except PathFault:
        return
    assert jail.read(path, 1 << 16) == INSIDE


@pytest.mark.parametrize(
    "path",
    ["..", "../secret.txt", "/etc/passwd", "/proc/self/environ", "out/etc/passwd", "link.txt", "dir/../../secret.txt"],
)
def test_ways_out_are_named_as_such(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathFault, match="outside the sandbox root"):
        build(tmp_path / "base").resolve(path)


def test_ways_that_stay_inside_work(tmp_path: Path) -> None:
    jail = build(tmp_path / "base")
    for path in (
        "file.txt",
        "./file.txt",
        "self/file.txt",
        "here/../file.txt",
        f"{jail.root}/file.txt",
        "up/root/file.txt",
    ):
        assert jail.read(path, 100) == INSIDE


@pytest.mark.parametrize("swapped", ["dir", "dir/target.txt"])
def test_a_link_swapped_in_after_the_check_is_not_followed(tmp_path: Path, swapped: str) -> None:
    base = tmp_path / "base"
    (build(base).root / "dir" / "target.txt").write_bytes(INSIDE)
    (base / "target.txt").write_bytes(SECRET)

    class Raced(Jail):
        def resolve(self, path: str) -> Path:
            real = super().resolve(path)
            victim = self.root / swapped
            shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
            victim.symlink_to(base if swapped == "dir" else base / "target.txt")
            return real

    with pytest.raises(PathFault):
        Raced(base / "root").read("dir/target.txt", 100)
    assert (base / "target.txt").read_bytes() == SECRET


def test_writing_through_a_swapped_folder_touches_nothing_outside(tmp_path: Path) -> None:
    base = tmp_path / "base"
    build(base)

    class Raced(Jail):
        def resolve(self, path: str) -> Path:
            real = super().resolve(path)
            shutil.rmtree(self.root / "dir")
            (self.root / "dir").symlink_to(base)
            return real

    with pytest.raises(PathFault):
        Raced(base / "root").write("dir/secret.txt", b"overwritten")
    assert (base / "secret.txt").read_bytes() == SECRET


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    jail = build(tmp_path / "base")
    os.mkfifo(jail.root / "pipe")
    with pytest.raises(PathFault, match="not a regular file"):
        jail.read("pipe", 100)
    with pytest.raises(PathFault, match="not a regular file"):
        jail.write("pipe", b"x")


def test_a_write_keeps_the_mode_and_leaves_no_other_file(tmp_path: Path) -> None:
    jail = build(tmp_path / "base")
    script = jail.root / "dir" / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o755)
    assert jail.write("dir/run.sh", b"new") is False
    assert script.stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(jail.root / "dir")) == ["deep", "run.sh"]


@pytest.mark.parametrize("path", [".git/hooks/post-commit", "dir/.GIT/config"])
def test_git_data_is_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathFault, match="git's own data"):
        build(tmp_path / "base").write(path, b"x")


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathFault, match="not a folder"):
        Jail(tmp_path / "missing")
