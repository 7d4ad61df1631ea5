"""Health: one watcher for each replica, which probes it at an interval and whenever somebody has doubts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

import httpx

from gateway.affinity.epochs import StandInEpochs
from gateway.placement.probe import Up, probe_health, probe_models
from gateway.placement.replica import DownCause, Replica, ReplicaState

log = logging.getLogger("sapwood.gateway")

SILENT_LIMIT = 3
"""Probes in a row that may time out before a replica that was healthy counts as down: it may be busy."""
MODELS_EVERY = 10
"""Every how many probes the model list is read again."""


class Watcher:
    """Owns one replica's transitions; requests only report what they saw (`saw_connection_fail`)."""

    def __init__(
        self,
        replica: Replica,
        http: httpx.AsyncClient,
        epochs: StandInEpochs,
        interval_s: float,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called after each probe."""
        self.replica = replica
        self.probed = asyncio.Event()
        self._http = http
        self._epochs = epochs
        self._interval_s = interval_s
        self._clock_ms = clock_ms
        self._changed = changed
        self._doubt = asyncio.Event()
        self._silent = 0
        self._rounds = 0

    def saw_connection_fail(self, detail: str) -> None:
        self._down(DownCause.GONE, detail)
        self._doubt.set()

    async def run(self) -> None:
        while True:
            await self.probe()
            self.probed.set()
            self._changed()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doubt.wait(), self._interval_s)
                await asyncio.sleep(min(0.05, self._interval_s))  # a dead replica is not probed in a spin
            self._doubt.clear()

    async def probe(self) -> None:
        result = await probe_health(self._http, self.replica.url, self.replica.terms)
        if isinstance(result, Up):
            await self._up(result)
        elif result.cause is not DownCause.SILENT or self._is_silent():
            self._down(result.cause, result.detail)

    async def _up(self, seen: Up) -> None:
        self._silent = 0
        replica = self.replica
        if replica.state is not ReplicaState.HEALTHY or self._rounds % MODELS_EVERY == 0:
            replica.models = await probe_models(self._http, replica.url, replica.terms) or replica.models
        self._rounds += 1
        replica.offers = seen.offers
        epoch = seen.epoch or await self._stand_in()
        if replica.state is ReplicaState.DOWN:
            log.info("replica %s is back", replica.url)
        replica.went_up(epoch)

    async def _stand_in(self) -> str:
        """A new one only if the replica was healthy before and gone since; not on the gateway's own start."""
        ask = self._epochs.renew if self.replica.was_gone and self.replica.epoch else self._epochs.current
        return await ask(self.replica.url, self._clock_ms())

    def _is_silent(self) -> bool:
        self._silent += 1
        return self._silent >= SILENT_LIMIT or self.replica.state is not ReplicaState.HEALTHY

    def _down(self, cause: DownCause, detail: str) -> None:
        if self.replica.state is not ReplicaState.DOWN:
            log.warning("replica %s is down: %s", self.replica.url, detail)
        self.replica.went_down(cause, detail)


class Health:
    """All watchers together."""

    def __init__(self, make_watcher: Callable[[Replica], Watcher]) -> None:
        self._make_watcher = make_watcher
        self._watchers: dict[str, Watcher] = {}
        self._tasks: dict[str, asyncio.Task[None]] | None = None
        """None before the start."""

    async def start(self, patience_s: float) -> None:
        """Begin to watch; back once each replica was probed, or after `patience_s`."""
        self._tasks = {url: asyncio.create_task(watcher.run()) for url, watcher in self._watchers.items()}
        probed = asyncio.gather(*(watcher.probed.wait() for watcher in self._watchers.values()))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(probed, patience_s)

    async def close(self) -> None:
        tasks, self._tasks = list((self._tasks or {}).values()), None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def follow(self, replicas: Iterable[Replica]) -> None:
        """Watch these from now on, and no others."""
        wanted = {replica.url: replica for replica in replicas}
        for url in [url for url, watcher in self._watchers.items() if wanted.get(url) is not watcher.replica]:
            del self._watchers[url]
            if self._tasks is not None:
                self._tasks.pop(url).cancel()
        for url in wanted.keys() - self._watchers.keys():
            watcher = self._watchers[url] = self._make_watcher(wanted[url])
            if self._tasks is not None:
                self._tasks[url] = asyncio.create_task(watcher.run())

    def saw_connection_fail(self, url: str, detail: str) -> None:
        if watcher := self._watchers.get(url):  # it may have left the configuration since
            watcher.saw_connection_fail(detail)
