"""`sapwood mcp`: the tools, or the agent as one tool, for any MCP client over stdio or streamable HTTP."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from agents.cli.endpoint import api_key, base_url_option

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from tools.sandbox import Sandbox

_OF_THE_AGENT = ("base_url", "model", "api_key_env", "max_turns")


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
@click.option("--agent", is_flag=True, help="Offer the whole agent as the one tool solve_task.")
@base_url_option("The agent's OpenAI-compatible endpoint.")
@click.option("--model", help="The agent's model.  [default: the first one the endpoint lists]")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the agent's API key.")
@click.option("--max-turns", type=click.IntRange(1), default=50, show_default=True, help="For each task and branch.")
@click.pass_context
def mcp(context: click.Context, /, agent: bool, **given: Any) -> None:
    """Serve Sapwood's tools, or its agent, over the Model Context Protocol."""
    _check(context, agent)
    where = given["transport"], given["host"], given["port"]
    if agent:
        _serve(_agent_server(given), *where)
        return
    from tools.errors import ToolFault
    from tools.sandbox import Sandbox
    from tools.server import build_server

    names = [name.strip() for name in given["only"].split(",") if name.strip()] or None
    try:
        with Sandbox(given["root"], allow_net=given["allow_net"]) as sandbox, _closed_on_sigterm(sandbox):
            server = build_server(sandbox, only=names)
            for line in sandbox.describe():
                click.echo(f"sapwood mcp {line}", err=True)
            _serve(server, *where)
    except (ToolFault, ValueError) as error:
        raise click.UsageError(str(error)) from None


def _check(context: click.Context, agent: bool) -> None:
    """Refuse options that would be without effect."""
    unfit = ("only", "allow_net") if agent else _OF_THE_AGENT
    typed = click.core.ParameterSource.COMMANDLINE
    for name in unfit:
        if context.get_parameter_source(name) is typed:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} does not go with --agent" if agent else f"{option} needs --agent")


def _agent_server(given: dict[str, Any]) -> MCPServer[Any]:
    from agents.as_tool import AgentTool
    from agents.options import Options
    from tools.server import server_of

    options = Options(
        repo=given["root"].resolve(),
        base_url=given["base_url"],
        model=given["model"],
        api_key=api_key(given["api_key_env"]),
        max_turns=given["max_turns"],
    )
    model = options.model or "the first listed"
    click.echo(f"sapwood mcp agent on {options.repo}, model {model}, at {options.base_url}", err=True)
    return server_of(AgentTool(options).specs())


def _serve(server: MCPServer[Any], transport: str, host: str, port: int) -> None:
    import anyio

    from tools.http import serve_http

    with contextlib.suppress(KeyboardInterrupt):
        if transport == "stdio":
            anyio.run(server.run_stdio_async)
            return
        try:
            anyio.run(serve_http, server, host, port)
        except OSError as error:
            raise click.UsageError(f"can't listen on {host}:{port}: {error.strerror or error}") from None


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
