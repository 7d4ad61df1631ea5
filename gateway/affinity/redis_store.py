"""The shared store: a thin shell over redis-py with exactly the commands that bindings need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from gateway.affinity.cluster import node_of
from gateway.guard.limits import SCRIPT, WINDOW_MS, Verdict, as_verdict

STORE_ERRORS = (RedisError, RedisClusterException, OSError, TimeoutError, ValueError, OverflowError)
"""Whatever a store that is down, read-only or full of garbage may raise."""

REFUSALS = (ResponseError,)
"""Those of them that a server which is there gave as its answer: read-only, out of memory."""


class SharedStore(Protocol):
    """What gateways share. Each method raises one of `STORE_ERRORS` when the store is away."""

    async def read(self, keys: Sequence[str]) -> Sequence[bytes | None]: ...

    async def write(self, values: Mapping[str, bytes], used_ms: int, ttl_ms: int) -> None: ...

    async def first(self, key: str, value: str) -> str: ...

    async def replace(self, key: str, value: str) -> None: ...

    async def take(self, key: str, now_ms: int, limit: int, amount: int, force: bool) -> Verdict: ...

    async def append(self, key: str, fields: Mapping[str, str], limit: int) -> None: ...

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


class RedisStore:
    """Redis 7, Valkey, or anything that speaks their protocol; `redis+cluster://` is any node of a Redis Cluster."""

    def __init__(self, url: str) -> None:
        self._redis: Any = _client(url)
        self._bind = self._redis.register_script(files("gateway.affinity").joinpath("bind.lua").read_bytes())
        self._take = self._redis.register_script(SCRIPT)

    async def read(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """One round trip. A key that holds no string reads as None."""
        values = await self._redis.mget(keys)
        if not isinstance(values, list) or len(values) != len(keys):
            raise ValueError("the store answered something else than it was asked for")
        return [value if isinstance(value, bytes) else None for value in values]

    async def write(self, values: Mapping[str, bytes], used_ms: int, ttl_ms: int) -> None:
        """Compare and set by last use, all keys at once."""
        await self._bind(keys=list(values), args=[used_ms, ttl_ms, *values.values()])

    async def first(self, key: str, value: str) -> str:
        """Store `value` unless the key is set; the value that holds afterwards."""
        old = await self._redis.set(key, value, nx=True, get=True)
        return old.decode() if isinstance(old, bytes) else value

    async def replace(self, key: str, value: str) -> None:
        await self._redis.set(key, value)

    async def take(self, key: str, now_ms: int, limit: int, amount: int, force: bool) -> Verdict:
        """Count into a sliding window: see `gateway.guard.limits`."""
        return as_verdict(await self._take(keys=[key], args=[now_ms, WINDOW_MS, limit, amount, int(force)]))

    async def append(self, key: str, fields: Mapping[str, str], limit: int) -> None:
        """To a stream of roughly at most `limit` entries."""
        await self._redis.xadd(key, fields, maxlen=limit, approximate=True)

    async def ping(self) -> None:
        await self._redis.ping()

    async def close(self) -> None:
        await self._redis.aclose()


def _client(url: str) -> Redis | RedisCluster:
    """It never tries again by itself: the link decides that, and a look-up has milliseconds. A cluster's client may
    ask one other node, since that is how it learns where a key went."""
    options: dict[str, Any] = {"protocol": 2, "socket_connect_timeout": 0.5, "socket_timeout": 1.0}
    node = node_of(url)
    if node is None:
        return Redis.from_url(url, retry=Retry(NoBackoff(), 0), **options)
    return RedisCluster.from_url(node, retry=Retry(NoBackoff(), 1), **options)
