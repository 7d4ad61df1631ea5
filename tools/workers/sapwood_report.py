"""A pytest plugin that writes what happens as JSON lines, while it happens, so that a time-out loses nothing.

Loaded with `-p sapwood_report` into whatever pytest a repository has; the file is named by SAPWOOD_REPORT.
"""

from __future__ import annotations

import json
import os
from typing import Any

_MAX_MESSAGE = 4000


class Reporter:
    """Appends one event a line. Paths are kept as pytest gives them."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (lives as long as pytest)

    def write(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"event": event, **fields}) + "\n")

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.write("start", nodeid=nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write("collect_error", nodeid=report.nodeid, **_failure(report.longrepr))

    def pytest_runtest_logreport(self, report: Any) -> None:
        expected = hasattr(report, "wasxfail")
        detail = _failure(report.longrepr) if report.failed else {}
        self.write("test", nodeid=report.nodeid, when=report.when, outcome=report.outcome, expected=expected, **detail)

    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> None:
        self.write("finish", exit=int(exitstatus))


def _failure(longrepr: Any) -> dict[str, Any]:
    """Message, file and line: the message of the error, the place deepest in the repository's own code."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is None:
        return {"message": _error_lines(str(longrepr)), "file": "", "line": 0}
    file, line = str(crash.path), crash.lineno
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", [])
    for entry in reversed(entries):
        place = getattr(entry, "reprfileloc", None)
        if place is not None and not os.path.isabs(str(place.path)):
            file, line = str(place.path), place.lineno
            break
    return {"message": crash.message[:_MAX_MESSAGE], "file": file, "line": line}


def _error_lines(text: str) -> str:
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(lines or text.strip().splitlines()[-5:])[:_MAX_MESSAGE]


def pytest_configure(config: Any) -> None:
    path = os.environ.get("SAPWOOD_REPORT")
    if path and not hasattr(config, "workerinput"):  # workers of pytest-xdist report through the main process
        config.pluginmanager.register(Reporter(path), "sapwood-reporter")
