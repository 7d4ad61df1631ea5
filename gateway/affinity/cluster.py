"""URLs of a Redis Cluster: `redis+cluster://HOST:PORT`, with any node's address."""

from __future__ import annotations

SUFFIX = "+cluster"


def node_of(url: str) -> str | None:
    """The URL of the node; None for a server that is no cluster."""
    scheme, _, rest = url.partition("://")
    return f"{scheme.removesuffix(SUFFIX)}://{rest}" if scheme.endswith(SUFFIX) else None
