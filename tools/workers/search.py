"""Searches files for a regular expression. A process of its own, since a pattern may never come to an end.

Reads `{"pattern", "ignore_case", "files", "max_matches", "max_line", "max_bytes"}` from standard input and writes
`{"matches": [[path, line, text], ...], "truncated": bool}`.
"""

from __future__ import annotations

import json
import os
import re
import sys

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def read(path: str, limit: int) -> str:
    """A file's text; empty if it is a link, binary, too large or gone."""
    try:
        with open(os.open(path, _FLAGS), "rb") as file:
            data = file.read(limit + 1)
    except OSError:
        return ""
    return "" if len(data) > limit or b"\0" in data[:8192] else data.decode("utf-8", "replace")


def main() -> None:
    job = json.load(sys.stdin)
    pattern = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    found: list[tuple[str, int, str]] = []
    for path in job["files"]:
        for number, line in enumerate(read(path, job["max_bytes"]).splitlines(), 1):
            if pattern.search(line):
                found.append((path, number, line[: job["max_line"]]))
                if len(found) > job["max_matches"]:
                    json.dump({"matches": found[:-1], "truncated": True}, sys.stdout)
                    return
    json.dump({"matches": found, "truncated": False}, sys.stdout)


if __name__ == "__main__":
    main()
