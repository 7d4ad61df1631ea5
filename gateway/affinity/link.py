"""The link to the shared store: up, down, or slow, and its own way back.

Callers get an answer within their budget or none. A call that overran is left to finish on its own, because
cutting it off would cost the connection; while several are overdue no further ones are made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

from gateway.affinity.redis_store import REFUSALS, STORE_ERRORS, SharedStore

T = TypeVar("T")
log = logging.getLogger("sapwood.gateway")

MAX_OVERDUE = 8
RETRY_S = 0.25


class LinkState(StrEnum):
    UP = "up"
    DOWN = "down"


class StoreLink:
    """Runs calls on the store. Never raises for a store that fails."""

    def __init__(self, store: SharedStore, took: Callable[[float], object] = lambda _: None) -> None:
        """`took` is told the seconds of each call that the store answered."""
        self.store = store
        self._took = took
        self.state = LinkState.DOWN
        self._overdue = 0
        self._said = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reconnect: asyncio.Task[None] | None = None

    async def start(self) -> None:
        try:
            await self.store.ping()
            self.state = LinkState.UP
        except STORE_ERRORS as error:
            self._went_down(error)

    async def close(self) -> None:
        pending = [*self._tasks, *([self._reconnect] if self._reconnect else [])]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        with contextlib.suppress(*STORE_ERRORS):
            await self.store.close()

    async def ask(self, call: Callable[[SharedStore], Awaitable[T]], budget_s: float) -> T | None:
        """The call's result, or None when the store is down, fails, or takes longer than `budget_s`."""
        if self.state is LinkState.DOWN or self._overdue >= MAX_OVERDUE:
            return None
        task = self._spawn(self._guarded(call))
        done, _ = await asyncio.wait({task}, timeout=budget_s)
        if done:
            return task.result()
        self._overdue += 1
        task.add_done_callback(self._caught_up)
        return None

    def tell(self, call: Callable[[SharedStore], Awaitable[None]]) -> asyncio.Task[None] | None:
        """Start a call whose result nobody needs; the task, for whoever wants to wait for its end."""
        if self.state is LinkState.DOWN or self._overdue >= MAX_OVERDUE:
            return None
        return self._spawn(self._guarded(call))

    async def _guarded(self, call: Callable[[SharedStore], Awaitable[T]]) -> T | None:
        since = time.monotonic()
        try:
            result = await call(self.store)
        except REFUSALS as error:
            self._say_once(f"the binding store refuses commands: {error}")
            return None
        except STORE_ERRORS as error:
            self._went_down(error)
            return None
        self._took(time.monotonic() - since)
        return result

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _say_once(self, line: str) -> None:
        """A store that refuses one write refuses the next thousand."""
        if line != self._said:
            log.warning(line)
        self._said = line

    def _caught_up(self, _: asyncio.Task[Any]) -> None:
        self._overdue -= 1

    def _went_down(self, error: Exception) -> None:
        if self._reconnect is not None and not self._reconnect.done():
            return
        log.warning("the binding store is away (%s); going on with local bindings", error)
        self.state = LinkState.DOWN
        self._reconnect = asyncio.create_task(self._come_back())

    async def _come_back(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            try:
                await self.store.ping()
            except STORE_ERRORS:
                continue
            self.state = LinkState.UP
            log.warning("the binding store is back")
            return
