"""The tool that runs a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.sandbox import Completed, Sandbox


class ShellTools:
    """run_command."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.run_command, read_only=False),)

    async def run_command(
        self,
        command: Annotated[str, Field(description="Shell command line, run in the root folder.")],
        timeout: Annotated[int, Field(description="Seconds until it is killed.")] = 60,  # noqa: ASYNC109
    ) -> CallToolResult:
        """Run a shell command and show its output and exit code. It ends with everything that it started."""
        if not command.strip():
            raise ToolFault("the command is empty")
        seconds = min(max(timeout, 1), int(self._sandbox.limits.max_seconds))
        done = await self._sandbox.run(command, timeout=seconds)
        return answer(_as_text(done, seconds), asdict(done), failed=done.timed_out)


def _as_text(done: Completed, seconds: int) -> str:
    """Output and outcome, without times, so that equal results are equal tokens."""
    output = done.output.rstrip("\n")
    lines = [output] if output else []
    if done.truncated:
        lines.append("[output was cut; to read on, filter it with grep, head, tail or sed -n]")
    if done.timed_out:
        lines.append(f"[timed out after {seconds} s; the command and everything it started were killed]")
    else:
        lines.append(f"[exit code {done.exit_code}]")
    return "\n".join(lines)
