"""The whole agent as one MCP tool: a task goes in, a diff and what the tests say come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from agents.events import BadSession
from agents.options import Options
from agents.report import Report
from agents.run import solve
from agents.shadow import ShadowError
from agents.state import Turn
from agents.view import Quiet, branch_of
from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.progress import telling
from tools.sandbox import Limits
from tools.sandbox.process import Hear
from tools.text import cut

_MAX_BRANCHES = 64


class AgentTool:
    """solve_task. One task at a time, since all work in one repository; the others wait."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._one_at_a_time = anyio.Lock()

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.solve_task, read_only=False),)

    async def solve_task(
        self,
        task: Annotated[str, Field(description="What is to be done, in plain words.")],
        context: Context[Any, Any],
        tests: Annotated[str, Field(description="Test file or command that decides; empty for all tests.")] = "",
        branches: Annotated[int, Field(description="Attempts from one shared beginning; tests pick one.")] = 1,
    ) -> CallToolResult:
        """Let a coding agent do a task in the repository. Returns the diff of what it changed and the test result."""
        if not task.strip():
            raise ToolFault("the task is empty")
        if not 1 <= branches <= _MAX_BRANCHES:
            raise ToolFault(f"branches is {branches}; give 1 to {_MAX_BRANCHES}")
        options = replace(self._options, prompt=task, tests=tests or self._options.tests, branches=branches)

        async def work(hear: Hear) -> Report:
            async with self._one_at_a_time:
                try:
                    return await solve(options, _Told(hear))
                except (BadSession, ShadowError, OSError) as error:
                    raise ToolFault(str(error)) from None

        ended = await telling(context, work)
        return answer(_as_text(ended), _as_data(ended), failed=ended.status.exit_code > 1)


class _Told(Quiet):
    """What a client is told while the agent works, a line for each event."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear

    def turn(self, session: str, turn: Turn) -> None:
        does = ", ".join(turn.calls) or "answer"
        self._line(f"{branch_of(session)} turn {turn.number}: {does} (prompt {turn.prompt}, cached {turn.cached})")

    def verdict(self, session: str, verdict: str) -> None:
        self._line(f"{branch_of(session)} tests: {verdict}")

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        self._hear(f"{text}\n".encode(errors="replace"))


def _as_text(ended: Report) -> str:
    limit = Limits().text_chars
    parts = [f"{ended.status.value.replace('_', ' ')}: {ended.reason}"]
    if ended.session:
        parts.append(f"session {ended.session}")
    if ended.tests:
        parts.append(f"tests:\n{cut(ended.tests, limit // 2, 'run the tests to see them')}")
    if ended.diff:
        parts.append(f"diff:\n{cut(ended.diff, limit, 'the files are changed: see the rest there')}")
    return "\n".join(parts).rstrip("\n")


def _as_data(ended: Report) -> dict[str, Any]:
    every = ended.as_json()
    return {name: every[name] for name in ("status", "reason", "session", "winner", "tests", "diff", "totals")}
