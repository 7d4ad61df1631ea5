"""git_diff: all that changed since the last commit, and nothing of the user's git is touched or run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
WHO = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *WHO, *arguments], cwd=folder, env=PLAIN, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def diff(call):
    return lambda path=".": call("git_diff", path=path)


@pytest.fixture
def repo(root):
    (root / "a.py").write_text("x = 1\ny = 2\n")
    (root / "src").mkdir()
    (root / "src/b.py").write_text("b\n")
    (root / ".gitignore").write_text("ignored\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def kept(repo: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file()}


def test_everything_that_changed_is_there_and_git_is_as_it_was(diff, repo):
    assert diff().text == "no changes since the last commit"
    (repo / "a.py").write_text("x = 1\ny = 3\n")
    (repo / "src/b.py").unlink()
    (repo / "src/ünew.py").write_text("new\n")
    (repo / "staged.py").write_text("staged\n")
    (repo / "ignored").write_text("no\n")
    git(repo, "add", "staged.py")
    before = kept(repo)
    text = diff().text
    assert [line for line in text.splitlines() if line[:1] in "+-"] == [
        "--- a/a.py", "+++ b/a.py", "-y = 2", "+y = 3",
        "--- a/src/b.py", "+++ /dev/null", "-b",
        "--- /dev/null", '+++ "b/src/\\303\\274new.py"', "+new",
        "--- /dev/null", "+++ b/staged.py", "+staged",
    ]  # fmt: skip
    assert "ignored" not in text
    assert kept(repo) == before


def test_one_path(diff, repo):
    (repo / "a.py").write_text("x = 1\n")
    (repo / "src/c.py").write_text("c\n")
    assert "src/c.py" in diff("src").text
    assert "a.py" not in diff("src").text
    assert "-y = 2" in diff("a.py").text
    assert diff("src/b.py").text == "no changes since the last commit"
    assert "outside the sandbox root" in diff("..").text


def test_it_can_be_applied_again(diff, call, repo):
    (repo / "a.py").write_text("x = 1\ny = 3\n")
    (repo / "src/new.py").write_text("new")
    patch = diff().text
    git(repo, "checkout", "--", ".")
    (repo / "src/new.py").unlink()
    assert not call("apply_patch", patch=patch).failed
    assert (repo / "a.py").read_text() == "x = 1\ny = 3\n"
    assert (repo / "src/new.py").read_text() == "new"


def test_before_the_first_commit(diff, root):
    git(root, "init", "--quiet")
    (root / "a.py").write_text("x\n")
    assert "+x" in diff().text


def test_only_the_root_of_a_larger_repository(diff, root):
    outer = root.parent
    git(outer, "init", "--quiet")
    (outer / "other.py").write_text("other\n")
    (root / "mine.py").write_text("mine\n")
    text = diff().text
    assert "b/mine.py" in text
    assert "other" not in text


def test_a_long_diff_names_its_files_and_the_next_call(diff, repo):
    for name in "cd":
        (repo / f"{name}.txt").write_text("".join(f"line {number}\n" for number in range(5000)))
    text = diff().text
    assert text.startswith("2 files have changed:\nc.txt\nd.txt\ndiff --git")
    assert "see one file with git_diff, path FILE ...]" in text
    assert len(text) < 13_000


def test_without_a_repository_or_git(diff, root, monkeypatch):
    assert "not in a git repository" in diff().text
    assert diff().failed
    (root.parent / "bin").mkdir()
    monkeypatch.setenv("PATH", str(root.parent / "bin"))
    assert diff().text == "git is not installed here; read the files instead"


@pytest.mark.parametrize(
    "setting",
    ["core.fsmonitor", "diff.external", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "core.pager"],
)
def test_no_program_that_a_configuration_names_is_run(diff, repo, setting):
    program = repo / "evil.sh"
    program.write_text("#!/bin/sh\ntouch evil-was-here\ncat\n")
    program.chmod(0o755)
    (repo / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git(repo, "config", "filter.evil.required", "true")
    git(repo, "config", setting, str(program))
    (repo / ".git/hooks").mkdir(exist_ok=True)
    shutil.copy(program, repo / ".git/hooks/post-index-change")
    (repo / "a.py").write_text("x = 1\ny = 3\n")
    assert "+y = 3" in diff().text
    assert not (repo / "evil-was-here").exists()


def test_a_repository_inside_is_left_out(diff, repo):
    (repo / "inner").mkdir()
    git(repo / "inner", "init", "--quiet")
    (repo / "inner/file").write_text("inner\n")
    (repo / "new").write_text("new\n")
    text = diff().text
    assert "+new" in text
    assert "inner" not in text


def test_nothing_stays_in_the_home(diff, repo, sandbox):
    before = sorted(sandbox.home.iterdir())
    diff()
    assert sorted(sandbox.home.iterdir()) == before
