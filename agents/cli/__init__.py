"""The `sapwood` command. Subcommands are imported when they are called: `sapwood --help` answers at once."""

from __future__ import annotations

import importlib
from typing import Any

import click

COMMANDS = {
    "up": ("agents.cli.up", "Start Redis, engines and the gateway; Ctrl-C ends them all."),
    "code": ("agents.cli.code", "Let the agent work on a repository until its tests pass."),
    "sessions": ("agents.cli.sessions", "List, show and export what the agent did in a repository."),
    "eval": ("agents.cli.evaluate", "Measure an agent: run it on a set of broken repositories."),
    "engine": ("engine.cli", "Serve one model over OpenAI's API."),
    "gateway": ("gateway.cli", "Serve one endpoint in front of several replicas."),
    "mcp": ("agents.cli.mcp", "Serve the tools, or the agent as one tool, to any MCP client."),
    "why": ("gateway.cli_why", "Say why a request was slow: what was reused, and what broke its prefix."),
    "keys": ("gateway.cli_keys", "Add, list and revoke API keys of a gateway."),
    "redis": ("gateway.cli_redis", "Run the embedded Redis in the foreground."),
    "fetch": ("engine.cli_fetch", "Download a model into the cache folder."),
    "doctor": ("agents.cli.doctor", "Say what is missing on this machine, and how to fix it."),
}


class LazyGroup(click.Group):
    """Knows its commands by name and help line; a command's module is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: Any = getattr(importlib.import_module(COMMANDS[name][0]), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sapwood")
def main() -> None:
    """Sapwood: a self-hosted stack for coding agents. Start with `sapwood up`, then `sapwood code -p "…"`."""
