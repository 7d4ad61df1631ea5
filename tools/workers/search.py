"""Searches files for a regular expression. A process of its own, since a pattern may never come to an end.

Reads `{"pattern", "ignore_case", "files", "max_matches", "max_line", "max_bytes", "ripgrep", "folder", "skipped"}` from
standard input and writes `{"matches": [[path, line, text], ...], "truncated": bool}`. Ripgrep, where it is named, only
leaves out files without a match, so that what is found does not depend on it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

_QUICK = (
    "--no-config",
    "--files-with-matches",
    "--null",
    "--no-ignore",
    "--hidden",
    "--text",
    "--crlf",
    "--no-messages",
)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def read(path: str, limit: int) -> str:
    """A file's text; empty if it is a link, binary, too large or gone."""
    try:
        with open(os.open(path, _FLAGS), "rb") as file:
            data = file.read(limit + 1)
    except OSError:
        return ""
    return "" if len(data) > limit or b"\0" in data[:8192] else data.decode("utf-8", "replace")


def candidates(job: dict[str, Any]) -> list[str]:
    """The files that are worth reading: all, unless ripgrep says which."""
    files: list[str] = job["files"]
    if not job["ripgrep"]:
        return files
    done = subprocess.run(
        [job["ripgrep"], *_QUICK, *(f"--glob=!{name}" for name in job["skipped"]), *["-i"] * job["ignore_case"],
         "-e", job["pattern"], "--", job["folder"]],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode > 1:  # not a pattern for it, or a file that it couldn't read
        return files
    found = {os.path.normpath(os.fsdecode(name)) for name in done.stdout.split(b"\0") if name}
    return [file for file in files if file in found]


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def main() -> None:
    job = json.load(sys.stdin)
    pattern = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    found: list[tuple[str, int, str]] = []
    for path in candidates(job):
        for number, line in enumerate(lines_of(read(path, job["max_bytes"])), 1):
            if pattern.search(line):
                found.append((path, number, line[: job["max_line"]]))
                if len(found) > job["max_matches"]:
                    json.dump({"matches": found[:-1], "truncated": True}, sys.stdout)
                    return
    json.dump({"matches": found, "truncated": False}, sys.stdout)


if __name__ == "__main__":
    main()
