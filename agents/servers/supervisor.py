"""One task for each server that starts it, watches over it and starts it again.

The library wants a client entered and left in one task, and an HTTP server that goes away cancels that task: so no call
of the agent runs in it. A call races against the end of the connection instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agents.servers.config import Http, ServerConfig
from agents.servers.life import Life
from agents.servers.offers import Hears, Offers
from agents.servers.reasons import last_words, reason

if TYPE_CHECKING:
    from mcp import Client


class State(StrEnum):
    STARTING = "starting"
    UP = "up"
    WAITING = "waiting"
    """Down, until some time has passed or somebody calls."""
    CLOSED = "closed"


@dataclass(frozen=True)
class Patience:
    """How a server that ends is started again: after `first` seconds, then twice as many, and after `tries` in vain
    only when it is called. One that was up for `steady` seconds is as good as new.
    """

    first: float = 0.5
    tries: int = 6
    steady: float = 60.0


class Supervisor:
    def __init__(self, config: ServerConfig, root: Path, hears: Hears, patience: Patience) -> None:
        self.config = config
        self.state = State.STARTING
        self.offers = Offers(config.name, hears)
        self.trouble = ""
        """Why it is not up; what it was the last time, while it is."""
        self.client: Client | None = None
        self.life = Life()
        self._root, self._hears, self._patience = root, hears, patience
        self._closing = False
        self._mode = "auto"
        self._outcomes = 0
        """Starts that came to an end, good or bad."""
        self._failures = 0
        """Lives in a row that were none."""
        self._turn = anyio.Event()
        self._wanted = anyio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while not self._closing:
                await self._live()
                await self._rest()
        finally:
            self.life.end("was closed")
            self._become(State.CLOSED)

    async def settled(self) -> None:
        """Until the first start has come to an end, good or bad."""
        await self._until(lambda: self._outcomes > 0)

    async def close(self) -> None:
        """Say goodbye to a server that is up, and end; one that only starts or waits is to be cancelled."""
        if self._up():
            self._closing = True
            self.life.end("it was closed")
            self._wanted.set()
            await self._until(lambda: False)

    async def reach(self) -> bool:
        """Whether the server is up, after an attempt to start it where it was not."""
        if not self._up():
            outcomes = self._outcomes
            if self.state is not State.STARTING:
                self._wanted.set()
            await self._until(lambda: self._up() or self._outcomes > outcomes)
        return self._up()

    def _up(self) -> bool:
        return self.state is State.UP and not self.life.ended.is_set()

    async def _live(self) -> None:
        """From a start to an end. Whatever goes wrong with a server is a reason, never an exception."""
        life = self.life = Life()
        self._become(State.STARTING)
        began = anyio.current_time()
        failure = await self._connected(life)
        was_up = self.client is not None
        self.client = None
        life.end(failure)
        if not was_up and self._spoke_too_modern(life):
            return await self._live()
        if not was_up:
            self._mode = "auto"
        self.trouble = failure + last_words(life)
        steady = was_up and anyio.current_time() - began >= self._patience.steady
        self._failures = 0 if steady else self._failures + 1
        self._down(was_up)
        return None

    async def _connected(self, life: Life) -> str:
        """Why it ended."""
        from mcp import Client
        from mcp.types import Implementation

        # Not `fail_after`: the scope outlives the start, and must then have no deadline.
        scope = anyio.CancelScope(deadline=anyio.current_time() + self.config.start_seconds)
        try:
            with scope:
                client = Client(
                    self._transport(life),
                    cache=None,
                    client_info=Implementation(name="sapwood", version=_version()),
                    message_handler=self.offers.hear,
                    mode=self._mode,
                    read_timeout_seconds=self.config.start_seconds,
                )
                async with client:
                    await self.offers.fetch(client)
                    scope.deadline = math.inf
                    self.client = client
                    self._arrived()
                    await self._attend(client, life)
        except Exception as error:  # the kinds are those of three libraries, and groups of them
            if not scope.cancel_called:
                return reason(error, self.config, life)
        late = f"it gave no answer within {self.config.start_seconds:g} s"
        return late if scope.cancel_called else life.reason

    def _transport(self, life: Life) -> Any:
        from agents.servers.http import http
        from agents.servers.stdio import stdio

        way = self.config.way
        return http(way, life) if isinstance(way, Http) else stdio(way, self._root, life)

    async def _attend(self, client: Client, life: Life) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.offers.follow, client)
            await life.ended.wait()
            self._become(State.WAITING)
            group.cancel_scope.cancel()

    def _spoke_too_modern(self, life: Life) -> bool:
        """Some servers end when the first thing they hear is not the handshake of old: then that is tried."""
        if self._mode == "legacy" or not life.quit:
            return False
        self._mode = "legacy"
        return True

    def _arrived(self) -> None:
        self._outcomes += 1
        self._become(State.UP)
        if self.offers.frozen:
            self._hears.note(f"server {self.config.name} is up")

    def _down(self, was_up: bool) -> None:
        name = self.config.name
        if self._closing:
            return
        if was_up or (self.offers.frozen and self._failures == self._patience.tries):
            when = "again" if self._failures < self._patience.tries else "when it is called"
            self._hears.note(f"server {name} is gone: {self.trouble}. It is started {when}.")
        if not was_up:
            self._outcomes += 1
        self._become(State.WAITING)

    async def _rest(self) -> None:
        delay = self._patience.first * 2 ** max(self._failures - 1, 0)
        with anyio.move_on_after(delay if self._failures < self._patience.tries else None):
            await self._wanted.wait()
        self._wanted = anyio.Event()

    def _become(self, state: State) -> None:
        self.state = state
        turn, self._turn = self._turn, anyio.Event()
        turn.set()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached() and self.state is not State.CLOSED:
            await self._turn.wait()


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sapwood")
    except PackageNotFoundError:
        return "unknown"
