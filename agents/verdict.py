"""What a run of the tests means. The tests are the only judge of whether a task is done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.toolbox import ToolResult


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """There was no test to run."""


@dataclass(frozen=True)
class Failure:
    """One failing test: its node id, the assertion in short, and where it happened (file may be unknown)."""

    test: str
    message: str
    file: str = ""
    line: int = 0


def judge(result: ToolResult) -> Verdict:
    """The verdict on a `run_tests` or `run_command` result; a run that says nothing clear is a failure."""
    data = result.data or {}
    if result.is_error:
        return Verdict.FAILED
    if "exit_code" in data:
        return Verdict.FAILED if data["exit_code"] else Verdict.PASSED
    if data.get("outcome") == "passed":
        return Verdict.PASSED if data.get("passed") else Verdict.ABSENT
    return Verdict.ABSENT if data.get("outcome") == "no tests" else Verdict.FAILED


def failures_of(data: dict[str, Any] | None) -> list[Failure]:
    """The failures in the structured result of `run_tests`."""
    return [Failure(f["nodeid"], f["message"], f["file"], f["line"]) for f in (data or {}).get("failures", ())]
