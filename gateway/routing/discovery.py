"""Replicas by the name service: the addresses of a name, asked for again and again, one replica each.

A name that does not resolve changes nothing: a name service that is away must not take the replicas with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gateway.config_urls import dns_name

log = logging.getLogger("sapwood.gateway")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as literals. Raises OSError."""


async def addresses(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(address[0]) for *_, address in found})


class Discovery:
    """`found` gets a pool's name and the URLs of its replicas, each time that they have changed."""

    def __init__(self, found: Callable[[str, Sequence[str]], None], resolve: Resolve = addresses) -> None:
        self._found = found
        self._resolve = resolve
        self._followed: dict[str, tuple[str, float, asyncio.Task[None]]] = {}
        self._asked: dict[str, asyncio.Event] = {}

    def follow(self, names: Mapping[str, str], interval_s: float) -> None:
        """`HOST:PORT` by pool: follow these from now on, and no others."""
        for pool, (name, interval, task) in list(self._followed.items()):
            if (names.get(pool), interval_s) != (name, interval):
                task.cancel()
                del self._followed[pool], self._asked[pool]
        for pool in names.keys() - self._followed.keys():
            asked = self._asked[pool] = asyncio.Event()
            task = asyncio.create_task(self._watch(pool, names[pool], interval_s, asked))
            self._followed[pool] = (names[pool], interval_s, task)

    async def settle(self, patience_s: float) -> None:
        """Until each name was asked for once, or that time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(asked.wait() for asked in self._asked.values())), patience_s)

    async def close(self) -> None:
        tasks = [task for _, _, task in self._followed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, pool: str, name: str, interval_s: float, asked: asyncio.Event) -> None:
        host, port = dns_name(name)
        known: Sequence[str] | None = None
        failing = False
        while True:
            try:
                urls = [_url(address, port) for address in await self._resolve(host, port)]
            except (OSError, UnicodeError) as error:
                if not failing:
                    log.warning("pool %s: %s does not resolve (%s); its replicas stay as they were", pool, host, error)
                failing = True
            else:
                if urls != known:
                    log.info("pool %s: %s is now %s", pool, name, ", ".join(urls))
                    self._found(pool, urls)
                known, failing = urls, False
            asked.set()
            await asyncio.sleep(interval_s)


def _url(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
