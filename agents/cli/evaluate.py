"""`sapwood eval`: how many tasks of a set an agent with this model solves, and what it costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agents.cli.endpoint import api_key, base_url_option
from agents.cli.signals import cancel_on_signal

if TYPE_CHECKING:
    from rich.console import Console

    from agents.evaluate.results import Book
    from agents.evaluate.tasks import Task
    from agents.options import Options

_EPILOG = """Exit status: 0 all solved, 1 not all, 2 usage, 3 the endpoint did not answer or failed in some tasks,
130 interrupted. What is finished is kept: the same --out goes on."""


@click.command(epilog=_EPILOG)
@click.option("--tasks", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Default: Sapwood's own.")
@click.option("--only", metavar="NAME", multiple=True, help="Only this task; may be given several times.")
@base_url_option("An OpenAI-compatible endpoint.")
@click.option("--model", help="Default: the first one the endpoint lists.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the API key.")
@click.option("--branches", type=click.IntRange(1, 256), default=1, show_default=True, help="For each task.")
@click.option("--max-turns", type=click.IntRange(1), default=50, show_default=True, help="For each branch.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Default: the profile's.")
@click.option("--seed", type=click.IntRange(0), help="Of the first attempt; further ones use SEED + 1000, + 2000, …")
@click.option("--profile", type=click.Choice(["auto", "full", "small"]), default="auto", show_default=True)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Attempts at each task.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Default: a new folder here.")
def eval(tasks: Path | None, only: tuple[str, ...], repeat: int, out: Path | None, **given: Any) -> None:
    """Measure an agent: run it on a set of broken repositories and count what it repairs."""
    given["api_key"] = api_key(given.pop("api_key_env"))
    click.get_current_context().exit(_main(tasks, only, repeat, out, given))


def _main(tasks: Path | None, only: tuple[str, ...], repeat: int, out: Path | None, given: dict[str, Any]) -> int:
    import logging

    import anyio
    from rich.console import Console

    from agents.evaluate.results import BadResults
    from agents.evaluate.run import Unanswered
    from agents.evaluate.tasks import OURS, BadTasks, load
    from agents.model import ModelError
    from agents.options import Options
    from agents.shadow import ShadowError

    logging.getLogger("mcp").setLevel(logging.ERROR)  # a tool's error is the model's to read
    folder = out or Path(time.strftime("sapwood-eval-%Y%m%d-%H%M%S"))
    try:
        chosen = load(tasks or OURS, only)
        ended = anyio.run(_evaluate, Options(repo=folder, **given), chosen, repeat, folder, Console())
    except (BadTasks, BadResults, ShadowError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except (ModelError, Unanswered) as error:
        click.echo(f"Error: {error}", err=True)
        return 3
    return 130 if ended is None else ended


async def _evaluate(options: Options, tasks: list[Task], repeat: int, out: Path, console: Console) -> int | None:
    """The exit status, or None after Ctrl-C or SIGTERM. What is finished is shown and written in any case."""
    import anyio

    from agents.evaluate.run import attempts, run
    from agents.evaluate.show import line

    able = [task for task in tasks if not task.missing]
    options, book = await _open(options, out)
    for task in tasks:
        if task.missing:
            console.print(f"{task.name}: skipped, there is no {', '.join(task.missing)} here", highlight=False)
    status: int | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_on_signal, group.cancel_scope)
        try:
            wanted = attempts(able, repeat)
            say = lambda result: console.print(line(result), markup=False, highlight=False, soft_wrap=True)  # noqa: E731
            failed = await run(options, wanted, book, say)
            done = [result for result in book.results if any(result.task == task.name for task in able)]
            status = 3 if failed else int(not done or not all(result.solved for result in done))
        except Exception as error:  # raised outside, so that the group does not wrap it
            failure = error
        group.cancel_scope.cancel()
    _conclude(book, options, [task for task in tasks if task.missing], console)
    if failure is not None:
        raise failure
    return status


async def _open(options: Options, out: Path) -> tuple[Options, Book]:
    """The model is settled before anything runs, and with it whether the endpoint answers at all."""
    from dataclasses import replace

    from agents import profiles
    from agents.evaluate.results import Book, Settings
    from agents.model import ChatModel

    async with ChatModel(options.base_url, options.api_key) as model:
        name = options.model or (await model.models())[0].name
        parameters = await model.parameters()
    profile = profiles.guess(name, parameters) if options.profile == "auto" else options.profile
    settings = Settings(name, options.branches or 1, options.max_turns, profile, options.temperature, options.seed)
    return replace(options, model=name, profile=profile), Book.open(out, settings)


def _conclude(book: Book, options: Options, skipped: list[Task], console: Console) -> None:
    from agents.evaluate.plot import tokens_chart
    from agents.evaluate.show import table

    if book.results:
        console.print(table(book.results))
    reasons = {task.name: f"needs {', '.join(task.missing)}" for task in skipped}
    book.conclude(base_url=options.base_url, skipped=reasons)
    (book.folder / "tokens.svg").write_text(tokens_chart(book.results), encoding="utf-8")
    console.print(f"results: {book.folder}", highlight=False, soft_wrap=True)
