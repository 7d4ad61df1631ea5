"""Why a server is not there, in a line for a person. Nothing that a configuration may hide is in it."""

from __future__ import annotations

import errno

from agents.servers.config import Http, ServerConfig, Stdio
from agents.servers.http import STATUS_ONLY
from agents.servers.life import Life

MOST_SAID = 300


def reason(error: Exception, config: ServerConfig, life: Life) -> str:
    """`error` is what leaving the connection raised."""
    import httpx2
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED
    from pydantic import ValidationError

    way = config.way
    match _first(error):
        case OSError() as failed if isinstance(way, Stdio):
            return _cannot_run(failed, way)
        case httpx2.TransportError() as failed if isinstance(way, Http):
            return f"no connection to {way.place}: {failed or type(failed).__name__}"
        case MCPError() as failed if failed.code == CONNECTION_CLOSED and life.reason:
            return life.reason
        case MCPError() as failed if failed.message in STATUS_ONLY and isinstance(way, Http):
            return f"{way.place} answers with HTTP status {life.status}"
        case MCPError() as failed:
            return f"it answers: {failed}"
        case ValidationError() as failed:
            wrong = failed.errors()[0]
            return f"it sent what is not MCP: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
        case failed:
            return " ".join(f"{failed or type(failed).__name__}".split())[:MOST_SAID]


def last_words(life: Life) -> str:
    """The end of what a program wrote to its standard error, for the end of a sentence."""
    lines = [" ".join(line.split()) for line in life.said.splitlines() if line.strip()]
    return f"; it wrote: {lines[-1][:MOST_SAID]}" if lines else ""


def _cannot_run(failed: OSError, way: Stdio) -> str:
    folder = way.cwd
    if folder is not None and not folder.is_dir():
        return f"its cwd {folder} is not a folder"
    if failed.errno == errno.ENOENT:
        return f"there is no program {way.command}"
    return f"{way.command} cannot be run: {failed.strerror or failed}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
