"""Streamable HTTP on a socket of our own, so that a port that the system picked can be told."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import click
import uvicorn
from mcp.server import MCPServer


class _Announcing(uvicorn.Server):
    """Says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            where = f"[{host}]" if ":" in host else host
            click.echo(f"sapwood mcp ready at http://{where}:{port}/mcp", err=True)


async def serve_http(server: MCPServer[Any], host: str, port: int) -> None:
    """Serve at `/mcp` until a signal comes. OSError if the address can't be had."""
    if not _is_loopback(host):
        click.echo(
            f"sapwood mcp warning: anyone who reaches {host} can run commands here; there is no password", err=True
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=128) as listener:
        app = server.streamable_http_app(host=host)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        await _Announcing(config).serve(sockets=[listener])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
