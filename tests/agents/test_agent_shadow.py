"""Snapshots and worktrees leave the user's folder and git repository alone."""

from __future__ import annotations

import subprocess

import pytest

from agents.shadow import Shadow


def git(folder, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def dirty(tmp_path):
    """A repository with a committed, a changed, a deleted, an untracked, an ignored and a force-added file."""
    root = tmp_path / "dirty"
    root.mkdir()
    for name in ("kept", "changed", "deleted", "forced.log"):
        (root / name).write_bytes(b"old\r\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / ".gitattributes").write_text("* text=auto\n")
    git(root, "init", "-q")
    git(root, "add", "-f", ".")
    git(root, "commit", "-qm", "x")
    (root / "changed").write_bytes(b"new\r\n")
    (root / "deleted").unlink()
    (root / "untracked").write_text("u")
    (root / "ignored.log").write_text("i")
    return root


def everything(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and ".git" not in p.parts}


def test_a_worktree_has_the_uncommitted_state_to_the_byte(dirty):
    with Shadow(dirty) as shadow:
        tree = everything(shadow.worktree("one"))
    mine = everything(dirty)
    ignored = next(path for path in mine if path.name == "ignored.log")
    del mine[ignored]
    assert tree == mine


def test_only_the_patch_reaches_the_folder_and_nothing_reaches_its_repository(dirty):
    status, before = git(dirty, "status", "--porcelain"), everything(dirty / ".git")
    with Shadow(dirty) as shadow:
        tree = shadow.worktree("one")
        (tree / "changed").write_bytes(b"newer\r\n")
        (tree / "added").write_bytes(bytes(range(256)))
        (tree / "__pycache__").mkdir()
        (tree / "__pycache__" / "x.pyc").write_bytes(b"x")
        assert git(dirty, "status", "--porcelain") == status
        patch = shadow.diff(tree)
        assert shadow.apply(patch) is None
        assert shadow.diff(dirty) == patch
    assert (dirty / "changed").read_bytes() == b"newer\r\n"
    assert (dirty / "added").read_bytes() == bytes(range(256))
    assert not (dirty / "__pycache__").exists()
    assert everything(dirty / ".git") == before


def test_a_patch_that_does_not_fit_changes_nothing(dirty):
    with Shadow(dirty) as shadow:
        tree = shadow.worktree("one")
        (tree / "changed").write_bytes(b"theirs\r\n")
        (tree / "kept").write_bytes(b"theirs\r\n")
        patch = shadow.diff(tree)
        (dirty / "changed").write_bytes(b"mine\r\n")
        assert "changed" in (shadow.apply(patch) or "")
    assert (dirty / "changed").read_bytes() == b"mine\r\n"
    assert (dirty / "kept").read_bytes() == b"old\r\n"


def test_a_folder_without_git_and_one_inside_a_repository_work_alike(dirty):
    inner = dirty / "inner"
    inner.mkdir()
    (inner / "a").write_text("1\n")
    with Shadow(inner) as shadow:
        tree = shadow.worktree("one")
        assert [path.name for path in tree.iterdir() if path.name != ".git"] == ["a"]
        (tree / "a").write_text("2\n")
        assert shadow.apply(shadow.diff(tree)) is None
    assert (inner / "a").read_text() == "2\n"


def test_everything_is_gone_afterwards_also_on_an_error(dirty):
    def fail():
        with Shadow(dirty) as shadow:
            made.append(shadow.worktree("one"))
            raise RuntimeError

    made = []
    with pytest.raises(RuntimeError):
        fail()
    assert not made[0].parent.parent.exists()


def test_what_a_worktree_says_of_itself_is_not_believed(tmp_path):
    """A command may put a repository of its own, with programs to run, in the place of a worktree's `.git`."""
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "file").write_text("old\n")
    ran = tmp_path / "ran"
    with Shadow(tmp_path / "repo") as shadow:
        tree = shadow.worktree("one")
        (tree / ".git").unlink()
        subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
        subprocess.run(["git", "config", "core.fsmonitor", f"touch {ran}"], cwd=tree, check=True)
        (tree / "file").write_text("new\n")
        assert "+new" in shadow.diff(tree)
    assert not ran.exists()


def test_the_folders_own_configuration_runs_no_program(tmp_path):
    ran = tmp_path / "ran"
    repo = tmp_path / "repo"
    repo.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {ran}"], cwd=repo, check=True)
    with Shadow(repo) as shadow:
        shadow.diff(repo)
    assert not ran.exists()


def test_a_repository_inside_is_left_out_even_an_empty_one(tmp_path):
    (tmp_path / "file").touch()
    subprocess.run(["git", "init", "--quiet", "inner"], cwd=tmp_path, check=True)
    with Shadow(tmp_path) as shadow:
        assert sorted(path.name for path in shadow.worktree("one").iterdir()) == [".git", "file"]
