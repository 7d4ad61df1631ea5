"""Runs git outside the sandbox, so that nothing a sandboxed command may have written makes it run a program.

Two kinds of repository are spoken to. Our own (snapshots, checkpoints) knows neither the user's configuration nor
anybody's hooks. The user's is read with the user's configuration, but without the programs that it could name.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

NO_PROGRAMS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never")
EXCLUDE = """\
.sapwood/
__pycache__/
*.pyc
.pytest_cache/
.mypy_cache/
.ruff_cache/
.venv/
venv/
node_modules/
"""
ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"
"""Bytes in are bytes out, whatever the folder's own attributes say."""

_IDENTITY = {
    "GIT_AUTHOR_NAME": "sapwood",
    "GIT_AUTHOR_EMAIL": "sapwood@localhost",
    "GIT_COMMITTER_NAME": "sapwood",
    "GIT_COMMITTER_EMAIL": "sapwood@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
_KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_ASKPASS")
"""What a user may have set for git; the rest points it to another repository (set when run from a git hook)."""


class GitError(Exception):
    """Git could not do what was asked; one line."""


def own_environment() -> dict[str, str]:
    """For repositories of ours."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _IDENTITY


def users_environment() -> dict[str, str]:
    """For the user's repository. Reading it writes nothing, not even a fresher index."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(_KEPT)}
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def git(
    arguments: Sequence[str],
    at: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    seconds: float | None = None,
) -> bytes:
    """What `git ARGUMENTS` in the folder `at` prints. Raises GitError."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=at,
            env=dict(environment),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=seconds,
            start_new_session=True,  # Ctrl-C is ours to handle: a half-done snapshot would look like a fault of git
        )
    except FileNotFoundError:
        raise GitError("git is not installed" if at.is_dir() else f"{at} is gone") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git took longer than {seconds:g} s in {at}") from None
    except OSError as error:
        raise GitError(f"git cannot be run in {at}: {error.strerror}") from None
    if done.returncode != 0:
        raise GitError(reason(done.stderr) or reason(done.stdout) or f"git ended with status {done.returncode}")
    return done.stdout


def reason(output: bytes) -> str:
    """The line of git's output that says what went wrong."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines[-1:] or [""])[0]


def read_users(arguments: Sequence[str], at: Path, stdin: bytes = b"", seconds: float | None = None) -> bytes:
    """Ask the user's repository something that runs no program of anybody. Raises GitError."""
    return git([*NO_PROGRAMS, *arguments], at, users_environment(), stdin, seconds)


def names_of(listed: bytes) -> list[str]:
    """A NUL-separated list of file names."""
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]
