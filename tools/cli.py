"""`sapwood mcp`: the tools for any MCP client, over stdio or streamable HTTP."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tools.sandbox import Sandbox


@click.command("mcp")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("."),
    help="The folder that no path leaves.  [default: the current one]",
)
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address for http.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port for http; 0 picks a free one.")
@click.option("--only", default="", help="Offer these tools only, as NAME,NAME.")
@click.option("--allow-net", is_flag=True, help="Let commands use the network.")
def mcp(root: Path, transport: str, host: str, port: int, only: str, allow_net: bool) -> None:
    """Serve Sapwood's tools over the Model Context Protocol."""
    import anyio

    from tools.errors import ToolFault
    from tools.sandbox import Sandbox

    names = [name.strip() for name in only.split(",") if name.strip()] or None
    try:
        with Sandbox(root, allow_net=allow_net) as sandbox, _closed_on_sigterm(sandbox):
            anyio.run(_serve, sandbox, names, transport, host, port)
    except (ToolFault, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        pass


@contextlib.contextmanager
def _closed_on_sigterm(sandbox: Sandbox) -> Iterator[None]:
    """Remove the sandbox's temporary home before SIGTERM ends us; the kernel ends our commands."""

    def end(number: int, frame: FrameType | None) -> None:
        sandbox.close()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _serve(sandbox: Sandbox, names: list[str] | None, transport: str, host: str, port: int) -> None:
    from tools.server import build_server

    server = build_server(sandbox, only=names)
    for line in sandbox.describe():
        click.echo(f"sapwood mcp {line}", err=True)
    if transport == "stdio":
        await server.run_stdio_async()
    else:
        from tools.http import serve_http

        await serve_http(server, host, port)
