"""`sapwood code`: the command line of the agent. Only click is imported before it is known what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agents.cli.endpoint import api_key, base_url_option
from agents.cli.signals import cancel_on_signal

if TYPE_CHECKING:
    from agents.options import Options
    from agents.report import Report
    from agents.view import View

_EPILOG = """Exit status: 0 done and verified by the tests, 1 not solved, 2 usage, 3 model or gateway failed,
4 budget used up, 130 interrupted."""


@click.command(epilog=_EPILOG)
@click.option("-p", "--prompt", help="What is to be done.")
@click.option("--repo", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="Where.")
@base_url_option("An OpenAI-compatible endpoint.")
@click.option("--model", help="Default: the first one the endpoint lists.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the API key.")
@click.option("--branches", type=click.IntRange(1, 256), help="Attempts from one shared prefix; tests pick one.")
@click.option("--rounds", type=click.IntRange(1, 16), default=1, show_default=True, help="Of branches, if none passes.")
@click.option("--spawn", type=click.IntRange(0, 64), default=0, help="Sub-agents that the model may start in all.")
@click.option("--tests", metavar="PATH|CMD", help="Tests that decide; default: what pytest finds.")
@click.option("--max-turns", type=click.IntRange(1), default=50, show_default=True, help="For each branch.")
@click.option("--max-tokens", type=click.IntRange(1), help="Computed and generated, over all branches.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="For the whole run.")
@click.option("--context", type=click.IntRange(256), help="Tokens of the model's context; default: what it says.")
@click.option("--allow-net", is_flag=True, help="Let commands use the network.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Default: the profile's.")
@click.option("--seed", type=click.IntRange(0), help="Branch i samples with SEED + i.")
@click.option("--resume", metavar="ID", help="Go on with a session.")
@click.option("--fork", metavar="ID[@N]", help="Go on beside a session, after its first N events.")
@click.option("--profile", type=click.Choice(["auto", "full", "small"]), default="auto", show_default=True)
@click.option("--output", type=click.Choice(["text", "json", "stream-json"]), default="text", show_default=True)
@click.option("--keep", is_flag=True, help="Keep the worktrees of branches, for a look at them.")
def code(api_key_env: str | None, output: str, **given: Any) -> None:
    """Do a task in a repository with a model and tools, and let the tests decide."""
    if sum(bool(given[name]) for name in ("prompt", "resume", "fork")) != 1:
        raise click.UsageError("give -p TASK to begin, or --resume ID or --fork ID to go on")
    if given["spawn"] and (given["branches"] or 1) > 1:
        raise click.UsageError("--spawn works with one branch: its sub-agents work side by side already")
    click.get_current_context().exit(_main({**given, "api_key": api_key(api_key_env)}, output))


def _main(given: dict[str, Any], output: str) -> int:
    import logging

    import anyio
    from rich.console import Console

    from agents.events import BadSession
    from agents.options import Options
    from agents.shadow import ShadowError
    from agents.view import Json, StreamJson, Text

    logging.getLogger("mcp").setLevel(logging.ERROR)  # a tool's error is the model's to read
    options = Options(**{**given, "repo": given["repo"].resolve()})
    view: View = {"json": Json, "stream-json": StreamJson, "text": Text}[output](Console())
    try:
        ended = anyio.run(_until_signal, options, view)
    except (BadSession, ShadowError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    return 130 if ended is None else ended.status.exit_code


async def _until_signal(options: Options, view: View) -> Report | None:
    """Run; Ctrl-C or SIGTERM cancels it, so that streams are closed, tools killed and worktrees removed."""
    import anyio

    from agents.run import solve

    ended: Report | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_on_signal, group.cancel_scope)
        try:
            ended = await solve(options, view)
        except Exception as error:  # raised outside, so that the group does not wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ended
