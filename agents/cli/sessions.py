"""`sapwood sessions`: what the agent did in a repository, listed, shown, and written in other forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

PIPED = 160
"""Columns of a table where there is no terminal."""

if TYPE_CHECKING:
    from rich.console import Console

    from agents.export.library import Library
    from agents.export.summary import Summary

_repo = click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Default: the current folder.",
)


@click.group()
def sessions() -> None:
    """List, show and export what `sapwood code` did in a repository. No session is changed."""


@sessions.command(name="list")
@_repo
def list_(repo: Path) -> None:
    """One line for each session, the newest first, with its branches."""
    from agents.events import BadSession
    from agents.export.library import Library
    from agents.export.show import listing, row

    library, rows, broken = Library(repo), [], []
    for name in library.names():
        try:
            rows.append(row(library.read(name)))
        except BadSession as error:
            broken.append(str(error))
    if rows:
        _console().print(listing(rows))
    elif not broken:
        click.echo(f"no sessions in {library.folder}: sapwood code makes one")
    for line in broken:
        _complain(line)
    click.get_current_context().exit(2 if broken else 0)


@sessions.command()
@click.argument("identity", metavar="ID")
@_repo
def show(identity: str, repo: Path) -> None:
    """How a session went: its turns, its branches, and what it cost."""
    from agents.export.show import write

    told = _or_exit(_summary, repo, identity)
    write(told, _console())


@sessions.command()
@click.argument("identity", metavar="ID")
@click.option(
    "--to",
    "form",
    type=click.Choice(["messages", "html", "events"]),
    required=True,
    help="OpenAI messages with tools and model, a page to read, or its events with those it shares with its parent.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Default: standard output.")
@_repo
def export(identity: str, form: str, out: Path | None, repo: Path) -> None:
    """Write a session in another form."""
    text = _or_exit(_FORMS[form], repo, identity)
    if out is None:
        click.echo(text.encode(), nl=False)
        return
    try:
        out.write_bytes(text.encode())
    except OSError as error:
        _fail(f"cannot write {out}: {error.strerror}")


def _console() -> Console:
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPED)


def _summary(library: Library, identity: str) -> Summary:
    from agents.export.summary import summarise

    return summarise(library, identity)


def _messages(library: Library, identity: str) -> str:
    from agents.export.library import final
    from agents.export.messages import as_json

    state = final(library.read(identity))
    if state.pending:
        calls = ", ".join(call.name for call in state.pending)
        click.echo(f"note: the last reply's calls have no result yet: {calls}", err=True)
    return as_json(state)


def _html(library: Library, identity: str) -> str:
    from agents.export.page import render

    return render(_summary(library, identity))


def _events(library: Library, identity: str) -> str:
    from agents.events import encode

    return b"".join(map(encode, library.read(identity).events)).decode()


_FORMS: dict[str, Callable[[Library, str], str]] = {"messages": _messages, "html": _html, "events": _events}


def _or_exit(make: Callable[[Library, str], Any], repo: Path, identity: str) -> Any:
    from agents.events import BadSession
    from agents.export.library import Library

    try:
        return make(Library(repo), identity)
    except BadSession as error:
        _fail(str(error))


def _fail(line: str) -> NoReturn:
    _complain(line)
    click.get_current_context().exit(2)


def _complain(line: str) -> None:
    from agents.view import shown

    click.echo(f"Error: {shown(' '.join(line.split()))}", err=True)
