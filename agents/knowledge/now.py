"""What changes between two sessions: where they work, the state of git, the date."""

from __future__ import annotations

import datetime
from pathlib import Path

from agents.git import NO_PROGRAMS, GitError, git, names_of, users_environment
from agents.knowledge.outline import shown

_SECONDS = 5.0


def describe_now(repo: Path, today: datetime.date, most: int) -> str:
    """The most volatile last."""
    return "\n".join([f"Working directory: {shown(str(repo))}", *_git_status(repo, most), f"Date: {today.isoformat()}"])


def _git_status(repo: Path, most: int) -> list[str]:
    status = ["status", "--porcelain=v1", "-z", "--branch", "--no-renames", "--ignore-submodules=all", "--", "."]
    try:
        environment = users_environment() | _without_filters(repo)
        listed = names_of(git([*NO_PROGRAMS, *status], repo, environment, seconds=_SECONDS))
    except GitError as error:
        return ["Git: not a repository" if "not a git repository" in str(error) else f"Git: no status ({error})"]
    branch, dirty = listed[0].removeprefix("## "), listed[1:]
    if not dirty:
        return [f"Git: {shown(branch)}, nothing to commit"]
    lines = [f"Git: {shown(branch)}, not committed:"]
    lines += [f"  {entry[:2].strip()} {shown(entry[3:])}" for entry in dirty[:most]]
    return lines + ([f"  … and {len(dirty) - most} more"] if len(dirty) > most else [])


def _without_filters(repo: Path) -> dict[str, str]:
    """Configuration that keeps git from running the filters which the repository's configuration names."""
    try:
        names = names_of(
            git(
                [*NO_PROGRAMS, "config", "-z", "--name-only", "--get-regexp", r"^filter\."],
                repo,
                users_environment(),
                seconds=_SECONDS,
            )
        )
    except GitError:  # none
        return {}
    drivers = sorted({name.rpartition(".")[0] for name in names})
    settings = [
        (f"{driver}.{key}", value)
        for driver in drivers
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    pairs = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(settings)}
    pairs |= {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(settings)}
    return pairs | {"GIT_CONFIG_COUNT": str(len(settings))}
