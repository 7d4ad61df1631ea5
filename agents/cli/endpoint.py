"""What commands that talk to an endpoint take from their user: its URL, and the key for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import click

DEFAULT_URL = "http://127.0.0.1:8080/v1"
DEFAULT_KEY = "SAPWOOD_API_KEY"


def base_url_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--base-url`, with `text` as its help."""
    return click.option(
        "--base-url",
        envvar="SAPWOOD_BASE_URL",
        default=DEFAULT_URL,
        show_default=True,
        callback=lambda context, parameter, value: http_url(value),
        help=text,
    )


def http_url(value: str) -> str:
    """`value` as it is. Raises click.BadParameter for what is no URL of an endpoint."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise click.BadParameter(f"{value!r} is not an http:// or https:// URL")
    return value


def api_key(name: str | None) -> str | None:
    """The key that the variable `name` holds; without a name, that of the default variable, which need not be set."""
    if name and not os.environ.get(name):
        raise click.UsageError(f"--api-key-env {name}: that variable is not set")
    key = os.environ.get(name or DEFAULT_KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise click.UsageError(f"${name or DEFAULT_KEY} is no API key: it has characters that no header can hold")
    return key or None
