"""URLs and addresses in the configuration: what is accepted, and in which one form it is kept."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

REDIS_SCHEMES = ("redis", "rediss", "unix", "valkey", "valkeys", "redis+cluster", "rediss+cluster")


def upstream_base(url: str) -> str:
    """`http://host:port[/path]` without a trailing slash or `/v1`, so that pasted base URLs work too."""
    parts = _split(url, "upstream")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"upstream {masked(url)!r} is no http:// or https:// URL")
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"upstream {masked(url)!r} may hold neither a query nor credentials")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def upstream_bases(urls: tuple[str, ...]) -> tuple[str, ...]:
    bases = tuple(upstream_base(url) for url in urls)
    if len(set(bases)) < len(bases):
        raise ValueError("an upstream is given twice")
    return bases


def redis_base(url: str) -> str:
    """A URL that redis-py takes; `valkey://` is the same protocol by another name."""
    parts = _split(url, "Redis URL")
    if parts.scheme not in REDIS_SCHEMES or not (parts.hostname or parts.path):
        raise ValueError(f"Redis URL {without_password(url)!r} is not of the form redis://HOST:PORT/DB")
    return url.replace("valkey", "redis", 1) if parts.scheme.startswith("valkey") else url


def dns_name(told: str) -> tuple[str, int]:
    """`host:port` apart; an IPv6 address would need no look-up, and so has no form here."""
    host, colon, port = told.rpartition(":")
    if not colon or not host or any(mark in host for mark in "/:@ ") or not port.isascii() or not port.isdigit():
        raise ValueError(f"{told!r} is not of the form HOST:PORT")
    if not 0 < int(port) <= 65535:
        raise ValueError(f"{told!r}: a port is a number from 1 to 65535")
    return host, int(port)


def without_password(url: str) -> str:
    return url.rsplit("@", 1)[-1]


def masked(url: str) -> str:
    """For a person's eyes."""
    before, at, rest = url.rpartition("@")
    scheme, separator, _ = before.rpartition("://")
    return f"{scheme}{separator}***@{rest}" if at else url


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError as error:
        raise ValueError(f"{what} {without_password(url)!r}: {error}") from None
    return parts
