"""The tool that runs a repository's tests and says what failed."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.progress import telling
from tools.report import Outcome, TestRun, fold, steady
from tools.sandbox import Completed, Sandbox
from tools.sandbox.process import Hear
from tools.workers import sapwood_report

_PLUGIN = Path(sapwood_report.__file__)
_REPORT_BYTES = 8 << 20
_NOISE_LINES = 15
_INI_SECTIONS = {
    "pytest.ini": "",
    ".pytest.ini": "",
    "pytest.toml": "",
    ".pytest.toml": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
_OPTIONS = ("-q", "--color=no", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", _PLUGIN.stem)


class TestingTools:
    """run_tests."""

    __test__ = False  # not a test, whatever its name says to pytest

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.run_tests, read_only=False),)

    async def run_tests(
        self,
        context: Context[Any, Any],
        target: Annotated[str, Field(description="A file, folder or pytest node id; empty for all tests.")] = "",
        timeout: Annotated[int, Field(description="Seconds until the tests are killed.")] = 120,  # noqa: ASYNC109
    ) -> CallToolResult:
        """Run the tests with pytest. Shows the counts and the first failures with their message and place."""
        started = partial(run_pytest, self._sandbox, target=target, seconds=timeout)
        run = await telling(context, lambda hear: started(hear=hear))
        return answer(run.as_text(), run.as_data(), failed=run.outcome is Outcome.TIMED_OUT)


class CommandTests:
    """run_tests, for repositories with a test command of their own."""

    def __init__(self, sandbox: Sandbox, command: str) -> None:
        self._sandbox = sandbox
        self._command = command

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.run_tests, read_only=False),)

    async def run_tests(
        self,
        context: Context[Any, Any],
        timeout: Annotated[int, Field(description="Seconds until the tests are killed.")] = 120,  # noqa: ASYNC109
    ) -> CallToolResult:
        """Run the tests of this project. Shows their output and whether they passed."""
        run = partial(self._sandbox.run, self._command, timeout=max(timeout, 1), keep=True)
        done = await telling(context, lambda hear: run(hear=hear))
        outcome = Outcome.TIMED_OUT if done.timed_out else Outcome.FAILED if done.exit_code else Outcome.PASSED
        lines = [_headline(outcome, done, self._command), done.output.strip("\n")]
        if done.truncated:
            lines.append(done.middle_left_out())
        data = {"outcome": outcome.value, "command": self._command, **asdict(done)}
        return answer("\n".join(filter(None, lines)), data, failed=done.timed_out)


def _headline(outcome: Outcome, done: Completed, command: str) -> str:
    match outcome:
        case Outcome.PASSED:
            return f"the tests passed ({command})"
        case Outcome.TIMED_OUT:
            return f"the tests timed out and were killed ({command})"
        case _:
            return f"the tests failed with exit code {done.exit_code} ({command})"


async def run_pytest(sandbox: Sandbox, *, target: str = "", seconds: float = 120, hear: Hear | None = None) -> TestRun:
    """Run pytest in the sandbox's root. ToolFault for a target that does not exist or a missing pytest. `hear` gets
    pytest's own output as it comes.
    """
    targets = [_checked(sandbox, target)] if target else []
    python = interpreter(sandbox)
    report = sandbox.home / f"report-{secrets.token_hex(8)}.jsonl"
    done = await sandbox.run(
        [python, "-m", "pytest", *_OPTIONS, *_configuration(sandbox), *targets],
        timeout=max(seconds, 1),
        env={"PYTHONPATH": str(_PLUGIN.parent), "SAPWOOD_REPORT": str(report), "PYTHONHASHSEED": "0"},
        hear=hear,
    )
    if "No module named pytest" in done.output and not report.exists():
        raise ToolFault(f"pytest is not installed for {python}; install it there and try again")
    shown = ((f"{sandbox.root}/", ""), (str(sandbox.root), "."), (str(sandbox.home), "<tmp>"))
    return _conclude(fold(_events(report), replace=shown), done, shown)


def interpreter(sandbox: Sandbox) -> str:
    """The Python that the sandbox names, else the repository's own if it has one, else the one that runs us."""
    return sandbox.python or own_python(sandbox.root) or sys.executable


def own_python(repo: Path) -> str | None:
    """The Python of the repository's virtual environment, if it has one."""
    candidates = (repo / folder / "bin" / "python" for folder in (".venv", "venv"))
    return next((str(python) for python in candidates if os.access(python, os.X_OK)), None)


def _checked(sandbox: Sandbox, target: str) -> str:
    path, separator, test = target.partition("::")
    if not sandbox.resolve(path).exists():
        raise ToolFault(f"there is no test file or folder {path!r}; find test files with find_files")
    return sandbox.jail.relative(path) + separator + test


def _configuration(sandbox: Sandbox) -> list[str]:
    """Keep pytest from taking up the configuration of a project around the root."""
    root = sandbox.root
    place = [f"--rootdir={root}", f"--confcutdir={root}"]
    for name, section in _INI_SECTIONS.items():
        with contextlib.suppress(ToolFault):
            if section.encode() in sandbox.jail.read(name, sandbox.limits.read_bytes):
                return place
    return [*place, "-c", os.devnull]


def _events(report: Path) -> list[str]:
    """The plugin's lines, read once and removed; none if pytest never got so far. Tests can put anything in its
    place: a link or a pipe is not read.
    """
    try:
        with open(os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            raw = file.read(_REPORT_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        report.unlink()
    except OSError:
        return []
    return raw.decode("utf-8", "replace").splitlines()


def _conclude(run: TestRun, done: Completed, shown: Sequence[tuple[str, str]]) -> TestRun:
    """Add what only the process tells: time, time-out, and the noise of a pytest that did not finish."""
    run = replace(run, seconds=done.seconds)
    if done.timed_out:
        return replace(run, outcome=Outcome.TIMED_OUT)
    if run.outcome is Outcome.BROKEN and not run.failures:
        noise = steady("\n".join(done.output.strip().splitlines()[-_NOISE_LINES:]), shown)
        return replace(run, detail=f"{noise}\n[exit code {done.exit_code}]".strip())
    return run
