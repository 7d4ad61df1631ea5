"""One call of a foreign tool: whatever becomes of it is a result for the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from agents.servers.content import progress_text, result_of
from agents.servers.http import STATUS_ONLY
from agents.servers.supervisor import Supervisor
from agents.toolbox import Fault, ToolResult

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.shared.dispatcher import ProgressFnT

DEEPEST = 100
Progress = Callable[[str], None]
_FORGOTTEN = "Session terminated"
"""What the library makes of a 404: the server was started anew and ran nothing."""


async def call(server: Supervisor, tool: str, arguments: dict[str, Any], progress: Progress) -> ToolResult:
    """Cancelling it tells the server."""
    try:
        arguments = _sendable(arguments)
    except ValueError as error:
        return ToolResult(f"These arguments cannot be sent: {error}. Nothing was run.", True)
    for _ in range(2):
        if not await server.reach():
            return not_there(server)
        if tool not in server.offers.listing:
            return ToolResult(f"The server {server.config.name} has no tool {tool} any more. Nothing was run.", True)
        result = await _race(server, tool, arguments, progress)
        if result is not None:
            return result
    return ToolResult(f"The server {server.config.name} forgets its session each time. Nothing was run.", True)


def not_there(server: Supervisor) -> ToolResult:
    return ToolResult(f"The server {server.config.name} is not there: {server.trouble}. Nothing was run.", True)


async def _race(server: Supervisor, tool: str, arguments: dict[str, Any], progress: Progress) -> ToolResult | None:
    """None where the server does not know our session, so that it ran nothing and can be asked again."""
    life, client = server.life, server.client
    assert client
    result: ToolResult | None = _gone(server)

    async def ended() -> None:
        await life.ended.wait()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ended)
        result = await _ask(server, client, tool, arguments, progress)
        group.cancel_scope.cancel()
    return result


async def _ask(
    server: Supervisor, client: Client, tool: str, arguments: dict[str, Any], progress: Progress
) -> ToolResult | None:
    from mcp import MCPError
    from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult
    from pydantic import ValidationError

    seconds = server.config.call_seconds
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    try:
        # Not `call_tool`: it throws away a result that does not fit the tool's own output schema.
        answer = await client.session.send_request(request, CallToolResult, seconds, progress_callback=_told(progress))
    except MCPError as error:
        return _refused(server, tool, error)
    except ValidationError:
        return ToolResult(f"{tool} answered with something that is not a result, or asks a person for input.", True)
    return result_of(answer)


def _refused(server: Supervisor, tool: str, error: MCPError) -> ToolResult | None:
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    if error.code == CONNECTION_CLOSED:
        return _gone(server)
    if error.code == REQUEST_TIMEOUT:
        text = f"{tool} gave no answer within {server.config.call_seconds:g} s and was told to stop."
        return ToolResult(text, True, None, Fault.TIMEOUT)
    if error.message == _FORGOTTEN:
        server.life.end("it does not know our session any more")
        return None
    status = f" (HTTP status {server.life.status})" if error.message in STATUS_ONLY else ""
    return ToolResult(f"{tool} failed: {error.message}{status}", True)


def _gone(server: Supervisor) -> ToolResult:
    text = f"The server {server.config.name} went away in the middle of this call: it may be done, in part or not at "
    return ToolResult(f"{text}all. The server is started again. Look before you repeat the call.", True)


def _told(told: Progress) -> ProgressFnT:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told(progress_text(progress, total, message))

    return tell


def _sendable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without the halves of characters that a model's JSON may hold. Raises ValueError for what no JSON can hold."""
    if _depth(arguments, DEEPEST) > DEEPEST:
        raise ValueError(f"they are nested more than {DEEPEST} deep")
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    sendable: dict[str, Any] = json.loads(text.encode(errors="replace"))
    return sendable


def _depth(value: Any, most: int) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(item, most - 1) for item in inner), default=0) if most >= 0 else 1
