"""Writes the difference between a work tree and its last commit, untracked files included, as a git patch.

Called in the work tree with a scratch folder and a path. It runs no program that the repository's configuration names,
and writes only in the scratch folder: the user's index and objects stay as they are. Exit codes: 3 without git,
4 outside a repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NO_GIT, NO_REPOSITORY = 3, 4
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIFF = ("diff", "--relative", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


def git(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], input=stdin, capture_output=True, check=False)


def line(*arguments: str) -> str:
    """The one line that git says; empty if it failed."""
    done = git(*arguments)
    return os.fsdecode(done.stdout.rstrip(b"\n")) if done.returncode == 0 else ""


def filters() -> list[tuple[str, str]]:
    """Settings that take the place of every filter program in the configuration."""
    listed = git("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return [(name, "false" if name.endswith(".required") else "") for name in names]


def configure(settings: list[tuple[str, str]]) -> None:
    """For every git that this process starts from now on."""
    os.environ["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (name, value) in enumerate(settings):
        os.environ[f"GIT_CONFIG_KEY_{number}"], os.environ[f"GIT_CONFIG_VALUE_{number}"] = name, value


def use_own_index(scratch: str) -> None:
    """A copy of the index, and a place for objects, that may be written."""
    index, objects = line("rev-parse", "--git-path", "index"), line("rev-parse", "--git-path", "objects")
    own = os.path.join(scratch, "index")
    if os.path.isfile(index):
        shutil.copy2(index, own)  # with its time, by which git knows what may have changed since
    os.mkdir(os.path.join(scratch, "objects"))
    os.environ |= {
        "GIT_INDEX_FILE": own,
        "GIT_OBJECT_DIRECTORY": os.path.join(scratch, "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.abspath(objects),
    }


def add_untracked(path: str) -> None:
    """Name untracked files in the index; repositories inside the work tree are not ours."""
    listed = git("ls-files", "-z", "--others", "--exclude-standard", "--", path)
    names = [name for name in listed.stdout.split(b"\0") if name and not name.endswith(b"/")]
    if names:
        git("add", "--intent-to-add", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul",
            stdin=b"\0".join(names))  # fmt: skip


def main() -> int:
    scratch, path = sys.argv[1:]
    if shutil.which("git") is None:
        return NO_GIT
    os.environ |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
    }
    safe = [("core.fsmonitor", "false"), ("core.hooksPath", os.devnull), ("safe.directory", "*")]
    configure(safe)
    if line("rev-parse", "--is-inside-work-tree") != "true":
        return NO_REPOSITORY
    configure(safe + filters())
    use_own_index(scratch)
    add_untracked(path)
    since = line("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or _EMPTY_TREE
    done = git(*_DIFF, since, "--", path)
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
