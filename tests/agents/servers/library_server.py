"""A server written with the MCP library: `library_server.py stdio|http [LEGACY_PORT]`.

Over HTTP it prints its URL; a port may be given, so that it can come back where it was.
"""

from __future__ import annotations

import os
import socket
import sys

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("library", log_level="CRITICAL")


class Point(BaseModel):
    x: int = 0


@server.tool()
def where(point: Point) -> str:
    """Says where a point is."""
    return f"at {point.x}"


@server.tool()
def pid() -> int:
    return os.getpid()


@server.tool()
def refuse() -> str:
    raise ToolError("not today")


@server.tool()
def die() -> str:
    print("last words", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def wait(mark: str, context: Context) -> str:
    """Reports progress and waits; leaves the file `mark` when it is cancelled."""
    await context.report_progress(1, 2, "begun")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        with open(mark, "w") as file:  # noqa: ASYNC230
            file.write("cancelled")
        raise


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool and says so, in both ways of saying it."""

    def grown(n: int) -> str:
        """Is new."""
        return f"grown {n}"

    server.add_tool(grown)
    server.remove_tool("refuse")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "grew"


def serve_http(port: int) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve_http(int(sys.argv[2]))
    else:
        server.run()
