"""`sapwood keys`: add, list and revoke the API keys of a gateway."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from gateway.guard.key_store import KeyStore

T = TypeVar("T")
DEFAULT = "~/.sapwood/keys.json"


@click.group("keys")
@click.option("--store", default=DEFAULT, show_default=True, metavar="PATH|redis", help="Where keys are kept.")
@click.option("--redis", "redis_url", envvar="SAPWOOD_REDIS", metavar="URL", help="For `--store redis`.")
@click.pass_context
def keys(context: click.Context, store: str, redis_url: str | None) -> None:
    """API keys of a gateway. Only their digests are stored; a running gateway knows of a change within seconds."""
    context.obj = (store, redis_url)


@keys.command()
@click.argument("name")
@click.option("--tenant", help="Who shares a cache with it; the name by default.")
@click.option("--requests-per-minute", "requests", type=click.IntRange(0), default=0, help="0 is without limit.")
@click.option("--tokens-per-minute", "tokens", type=click.IntRange(0), default=0, help="0 is without limit.")
@click.pass_obj
def add(where: tuple[str, str | None], name: str, tenant: str | None, requests: int, tokens: int) -> None:
    """Make a key. It is shown once, and can't be shown again."""
    from gateway.guard.keys import make_key

    store = _open(where)
    if any(key.name == name for key in _guarded(store.all)):
        raise _failed(f"there is a key named {name} already: revoke it first, or take another name")
    secret, record = make_key(name, tenant or name, requests, tokens)
    _guarded(lambda: store.add(record))
    click.echo(secret)


@keys.command("list")
@click.pass_obj
def list_keys(where: tuple[str, str | None]) -> None:
    """The keys, by their first characters."""
    store = _open(where)
    found = sorted(_guarded(store.all), key=lambda key: key.name)
    if not found:
        click.echo("no keys", err=True)
    for key in found:
        made = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        limits = f"{key.requests_per_minute or '-'} requests/min, {key.tokens_per_minute or '-'} tokens/min"
        click.echo(f"{key.name}\t{key.shown}…\ttenant {key.tenant}\t{made}\t{limits}")


@keys.command()
@click.argument("name")
@click.pass_obj
def revoke(where: tuple[str, str | None], name: str) -> None:
    """Take a key's right away, by its name."""
    store = _open(where)
    found = [key for key in _guarded(store.all) if key.name == name]
    if not found:
        raise _failed(f"there is no key named {name}: see `sapwood keys list`")
    for key in found:
        _guarded(partial(store.revoke, key.hashed))


def _open(where: tuple[str, str | None]) -> KeyStore:
    from gateway.guard.key_store import open_keys

    return _guarded(lambda: open_keys(*where))


def _guarded(work: Callable[[], T]) -> T:
    from gateway.errors import StartError

    try:
        return work()
    except StartError as error:
        raise _failed(str(error)) from None


def _failed(message: str) -> click.ClickException:
    from gateway.cli import CommandFailed

    return CommandFailed(message)
