"""What a test run came to: a pure fold over the events of the report plugin, and its text for a model."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_SHOWN_FAILURES = 5
_KEPT_FAILURES = 20
_SHOWN_LINES = 60
"""Of all failures together; each gets its share."""
_CHANGING = (
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "0x..."),
    (re.compile(r"(<tmp>)?(/[\w.-]+)*/pytest-of-[^/\s]+/pytest-\d+"), "<tmp>"),
)


class Outcome(Enum):
    """How a test run ended."""

    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"
    """Tests could not be collected, or pytest itself could not run or died."""
    NO_TESTS = "no tests"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Failure:
    """One test that failed, or one file that could not be collected."""

    nodeid: str
    message: str
    file: str
    line: int


@dataclass(frozen=True)
class TestRun:
    """Counts, the first failures and, when it did not end by itself, the test that was running."""

    __test__ = False  # not a test, whatever its name says to pytest

    outcome: Outcome
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: Sequence[Failure] = ()
    running: str = ""
    detail: str = ""
    """For a person or model, when no test explains the outcome."""
    seconds: float = 0.0

    def as_data(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "passed": self.passed,
            "failed": self.failed,
            "errors": self.errors,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 3),
            "running": self.running,
            "failures": [vars(failure) for failure in self.failures],
        }

    def as_text(self) -> str:
        """Short and stable: the same result always gives the same text."""
        parts = [self._headline(), *self._failure_texts()]
        if len(self.failures) > _SHOWN_FAILURES:
            count, after = self.failed + self.errors - _SHOWN_FAILURES, self.failures[_SHOWN_FAILURES].nodeid
            parts.append(f"[{count} more not shown; run_tests, target {after}, shows the next]")
        if self.detail:
            parts.append(self.detail)
        return "\n".join(parts)

    def _headline(self) -> str:
        counts = ((self.failed, "failed"), (self.errors, "errors"), (self.passed, "passed"), (self.skipped, "skipped"))
        tally = ", ".join(f"{count} {name}" for count, name in counts if count)
        where = f" in {self.running}" if self.running else ""
        match self.outcome:
            case Outcome.NO_TESTS:
                return "no tests were found" + (f" ({tally})" if tally else "")
            case Outcome.TIMED_OUT:
                return f"the tests timed out{where} ({tally or 'none finished'})"
            case Outcome.BROKEN if not self.errors:
                return f"pytest did not finish{where}" + (f" ({tally})" if tally else "")
            case _:
                return tally

    def _failure_texts(self) -> Iterable[str]:
        most = _SHOWN_LINES // min(max(len(self.failures), 1), _SHOWN_FAILURES)
        for number, failure in enumerate(self.failures[:_SHOWN_FAILURES], 1):
            place = f"{failure.file}:{failure.line}: " if failure.line else ""
            lines = failure.message.splitlines() or ["(no message)"]
            more = [_more_lines(len(lines) - most, failure)] if len(lines) > most else []
            shown = "\n".join(f"   {line}" for line in [*lines[:most], *more]).lstrip()
            yield f"{number}. {failure.nodeid}\n   {place}{shown}"


def _more_lines(count: int, failure: Failure) -> str:
    return f"[{count} more lines; run_tests, target {failure.nodeid}, shows more]"


@dataclass
class _Tally:
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    running: str = ""
    exit: int | None = None


def fold(lines: Iterable[str], *, replace: Sequence[tuple[str, str]] = ()) -> TestRun:
    """The run that the plugin's JSON lines tell. A line that was cut off, or that a test wrote there, is ignored.

    `replace` maps text that differs from machine to machine, such as the root's path, to what is shown instead.
    """
    tally = _Tally()
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            _apply(tally, json.loads(line), replace)
    return TestRun(
        _outcome(tally),
        tally.passed,
        tally.failed,
        tally.errors,
        tally.skipped,
        tuple(tally.failures),
        tally.running,
    )


def steady(text: str, replace: Sequence[tuple[str, str]] = ()) -> str:
    """`text` without addresses and temporary paths, which change from run to run."""
    for old, new in replace:
        text = text.replace(old, new)
    for pattern, new in _CHANGING:
        text = pattern.sub(new, text)
    return text


def _apply(tally: _Tally, event: dict[str, Any], replace: Sequence[tuple[str, str]]) -> None:
    match event["event"]:
        case "start":
            tally.running = event["nodeid"]
        case "finish":
            tally.exit, tally.running = event["exit"], ""
        case "collect_error":
            tally.errors += 1
            _add_failure(tally, event, replace)
        case "test":
            _apply_test(tally, event, replace)


def _apply_test(tally: _Tally, event: dict[str, Any], replace: Sequence[tuple[str, str]]) -> None:
    match event["outcome"], event["when"]:
        case "passed", "call":
            tally.passed += 1
        case "skipped", _:
            tally.skipped += 1
        case "failed", when:
            tally.failed += when == "call"
            tally.errors += when != "call"
            _add_failure(tally, event, replace)
    if event["when"] == "teardown":
        tally.running = ""


def _add_failure(tally: _Tally, event: dict[str, Any], replace: Sequence[tuple[str, str]]) -> None:
    if len(tally.failures) < _KEPT_FAILURES:
        nodeid = event["nodeid"] or "collection"
        message, file = steady(event["message"], replace), steady(event["file"], replace)
        tally.failures.append(Failure(nodeid, message, file, int(event["line"])))


def _outcome(tally: _Tally) -> Outcome:
    """By pytest's documented exit codes: 0 passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 no tests."""
    match tally.exit:
        case 0:
            return Outcome.PASSED
        case 1:
            return Outcome.FAILED
        case 5:
            return Outcome.NO_TESTS
        case _:
            return Outcome.BROKEN
