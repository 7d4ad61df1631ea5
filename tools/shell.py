"""The tool that runs a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from tools.errors import ToolFault
from tools.family import ToolSpec, answer
from tools.progress import telling
from tools.sandbox import Sandbox
from tools.shell_state import Ran, Shell


class ShellTools:
    """run_command."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._shell = Shell(sandbox)

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec(self.run_command, read_only=False),)

    async def run_command(
        self,
        command: Annotated[str, Field(description="Shell command line. The first one runs in the root folder.")],
        context: Context[Any, Any],
        timeout: Annotated[int, Field(description="Seconds until it is killed.")] = 60,  # noqa: ASYNC109
    ) -> CallToolResult:
        """Run a shell command and show its output and exit code. Directory, variables and functions carry over to the
        next one; what runs in the background ends with it.
        """
        if not command.strip():
            raise ToolFault("the command is empty")
        seconds = min(max(timeout, 1), int(self._sandbox.limits.max_seconds))
        ran = await telling(context, partial(self._shell.run, command, seconds))
        return answer(_as_text(ran, seconds), {**asdict(ran.done), "folder": ran.folder}, failed=ran.done.timed_out)


def _as_text(ran: Ran, seconds: int) -> str:
    """Output and outcome, without times, so that equal results are equal tokens."""
    done = ran.done
    output = done.output.rstrip("\n")
    lines = [output] if output else []
    if done.truncated:
        lines.append(done.middle_left_out())
    if done.timed_out:
        lines.append(f"[timed out after {seconds} s; the command and everything it started were killed{_goes_on(ran)}]")
    else:
        lines.append(f"[exit code {done.exit_code}{_place(ran) if ran.kept else _goes_on(ran)}]")
    return "\n".join(lines)


def _place(ran: Ran) -> str:
    return "" if ran.folder == "." else f", now in {ran.folder}"


def _goes_on(ran: Ran) -> str:
    return f"; a new shell goes on in {'the root' if ran.folder == '.' else ran.folder}"
