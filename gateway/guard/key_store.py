"""Where keys are stored: a file of one machine, or the Redis that gateways share.

Both are read by the gateway while others write them: a key counts within seconds of being added, and no longer after
it was revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import redis
from filelock import FileLock
from redis.exceptions import RedisClusterException

from gateway.affinity.cluster import node_of
from gateway.errors import StartError
from gateway.guard.keys import Key, decode_key

REDIS_HASH = "sapwood:keys"
FRESH_S = 5.0
"""How long an answer of the store counts before it is asked again."""


class KeyStore(Protocol):
    """What `sapwood keys` needs. Raises StartError, as one line, for a store that can't be read or written."""

    def all(self) -> list[Key]: ...

    def add(self, key: Key) -> None: ...

    def revoke(self, hashed: str) -> None: ...


class FileKeys:
    """A JSON file that only its owner can read. Written whole, under a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Key]:
        try:
            told = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise StartError(f"can't read the keys in {self.path}: {error}") from None
        entries = told.get("keys") if isinstance(told, dict) else None
        keys = [decode_key(entry) for entry in entries] if isinstance(entries, list) else [None]
        if None in keys:
            raise StartError(f"{self.path} is no file of keys: mend it, or move it away")
        return [key for key in keys if key is not None]

    def add(self, key: Key) -> None:
        self._change(lambda keys: [*keys, key])

    def revoke(self, hashed: str) -> None:
        self._change(lambda keys: [key for key in keys if key.hashed != hashed])

    def _change(self, change: Callable[[list[Key]], list[Key]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.lock"):
                self._write(change(self.all()))
        except OSError as error:
            raise StartError(f"can't write the keys in {self.path}: {error}") from None

    def _write(self, keys: list[Key]) -> None:
        text = json.dumps({"keys": [json.loads(key.encode()) for key in keys]}, indent=2)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".keys-")  # made 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text + "\n")
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


class RedisKeys:
    """A hash in Redis, by the keys' digests."""

    def __init__(self, url: str) -> None:
        self._url = url

    def all(self) -> list[Key]:
        with _connected(self._url) as client:
            values = client.hvals(REDIS_HASH)
            if not isinstance(values, list):
                raise ValueError("the store answered something else than it was asked for")
            return [key for value in values if (key := decode_key(value)) is not None]

    def add(self, key: Key) -> None:
        with _connected(self._url) as client:
            client.hset(REDIS_HASH, key.hashed, key.encode())

    def revoke(self, hashed: str) -> None:
        with _connected(self._url) as client:
            client.hdel(REDIS_HASH, hashed)


def open_keys(where: str, redis_url: str | None) -> KeyStore:
    """`redis`, for the gateway's own, or a file's path. StartError for `redis` without one."""
    if where != "redis":
        return FileKeys(Path(where).expanduser())
    if redis_url is None:
        raise StartError("keys are to be in Redis, but no Redis is given: add --redis URL")
    return RedisKeys(redis_url)


class Unavailable(Exception):
    """The store can't be asked, and nothing is known of this key from before."""


class KeyRing:
    """The keys as a running gateway asks for them: from memory while they are fresh, and the last that was known while
    the store is away."""

    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Key] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def find(self, hashed: str) -> Key | None:
        """None for a key that nobody has. Unavailable if the store was never to be read."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= FRESH_S:
            await self._read(now)
        return self._known.get(hashed)

    async def _read(self, now: float) -> None:
        async with self._reading:
            if self._read_at is not None and self._clock() - self._read_at < FRESH_S:
                return  # somebody else has
            try:
                keys = await asyncio.to_thread(self._store.all)
            except StartError as error:
                if self._read_at is None:
                    raise Unavailable(str(error)) from None
            else:
                self._known = {key.hashed: key for key in keys}
            self._read_at = now


@contextlib.contextmanager
def _connected(url: str) -> Iterator[Any]:
    options: dict[str, Any] = {"protocol": 2, "socket_connect_timeout": 2.0, "socket_timeout": 2.0}
    node = node_of(url)
    kind = redis.Redis if node is None else redis.RedisCluster
    try:
        with kind.from_url(node or url, **options) as client:
            yield client
    except (redis.RedisError, RedisClusterException, OSError, ValueError, OverflowError) as error:
        raise StartError(f"can't reach the keys in Redis: {error}") from None
