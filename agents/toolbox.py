"""The tools of one session, in process, through the MCP client.

The loop sees the small `Toolbox` protocol only. Whatever goes wrong with a call (unknown tool, bad
arguments, time-out, a server that died) is a result for the model to read, never an exception: only
cancellation passes through.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import anyio

RUNS_PROCESSES = frozenset({"run_command", "run_tests", "check_code"})
CALL_TIMEOUT = 600.0
"""Seconds after which a call is given up here. The tools have shorter limits of their own."""


class Fault(StrEnum):
    """Why a call never became work. Several in a row stop the session."""

    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    CUT = "cut"


@dataclass(frozen=True)
class ToolResult:
    text: str
    is_error: bool = False
    data: dict[str, Any] | None = None
    """The structured result, where the tool has one."""
    fault: Fault | None = None


class Toolbox(Protocol):
    def specs(self) -> list[dict[str, Any]]:
        """The tools as OpenAI function tools, sorted by name."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult: ...


class McpToolbox:
    """`Toolbox` over a connected MCP client. `slots` bounds how many processes all sharers run at a time."""

    def __init__(
        self,
        client: Any,
        tools: list[Any],
        slots: anyio.CapacityLimiter | None,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        self._client, self._slots, self._timeout = client, slots, timeout
        self._specs = [_spec(tool) for tool in sorted(tools, key=lambda tool: str(tool.name))]
        self._names = {tool.name for tool in tools}

    def specs(self) -> list[dict[str, Any]]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        from mcp import MCPError

        if name not in self._names:
            known = ", ".join(sorted(self._names))
            return ToolResult(f"There is no tool named {name!r}. The tools are: {known}.", True, None, Fault.UNKNOWN)
        try:
            async with self._slot(name):
                result = await self._client.call_tool(name, arguments, read_timeout_seconds=self._timeout)
        except MCPError as error:
            timed_out = "timed out" in str(error).lower()
            fault = Fault.TIMEOUT if timed_out else None
            text = f"{name} gave no answer within {self._timeout:g} s." if timed_out else f"{name} failed: {error}"
            return ToolResult(text, True, None, fault)
        text = "\n".join(part.text for part in result.content if part.type == "text")
        data = result.structured_content
        return ToolResult(text, bool(result.is_error), data, _fault(data))

    def _slot(self, name: str) -> AbstractAsyncContextManager[Any]:
        return self._slots if self._slots and name in RUNS_PROCESSES else nullcontext()


@asynccontextmanager
async def open_toolbox(
    root: Path, slots: anyio.CapacityLimiter | None = None, *, repo: Path | None = None, allow_net: bool = False
) -> AsyncIterator[Toolbox]:
    """Sapwood's own tools on the sandbox `root`. Enter and leave in one task (the MCP client's rule).

    `repo` is where `root` is a worktree of: its virtual environment runs the tests, a worktree has none.
    """
    from tools.sandbox import Sandbox
    from tools.server import build_server
    from tools.testing import own_python

    with Sandbox(root, python=own_python(repo or root), allow_net=allow_net) as sandbox:
        async with connect(build_server(sandbox), slots) as toolbox:
            yield toolbox


@asynccontextmanager
async def connect(
    server: Any, slots: anyio.CapacityLimiter | None = None, seconds: float = CALL_TIMEOUT
) -> AsyncIterator[Toolbox]:
    """Any MCP server object as a toolbox."""
    from mcp import Client

    failure: Exception | None = None
    async with Client(server) as client:
        listed = await client.list_tools()
        try:
            yield McpToolbox(client, list(listed.tools), slots, seconds)
        except Exception as error:  # the client would wrap it in groups; it is raised as it was, outside
            failure = error
    if failure is not None:
        raise failure


def _fault(data: dict[str, Any] | None) -> Fault | None:
    """A tool that ran into its own time limit says so in its data."""
    late = data and (data.get("timed_out") or data.get("outcome") == "timed out")
    return Fault.TIMEOUT if late else None


def _spec(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": function}
