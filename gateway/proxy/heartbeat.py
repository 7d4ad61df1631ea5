"""Signs of life while an upstream computes: some clients give up on a stream that is silent, and send it all again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType


class Heartbeat:
    """Calls `beat` after each `interval_s` without `heard`. 0 is never. A context: nothing beats after its end."""

    def __init__(self, interval_s: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._interval_s = interval_s
        self._beat = beat
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Heartbeat:
        if self._interval_s:
            self._arm(self._interval_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.stop()

    def heard(self) -> None:
        self._last = self._loop.time()

    async def stop(self) -> None:
        """Once this returns, no beat is under way and none will come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._beating is not None:
            await asyncio.gather(self._beating, return_exceptions=True)
            self._beating = None

    def _arm(self, delay_s: float) -> None:
        self._timer = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        left = self._last + self._interval_s - self._loop.time()
        if left > 0:
            self._arm(left)
            return
        if self._beating is None or self._beating.done():
            self._beating = self._loop.create_task(self._run())
        self._arm(self._interval_s)

    async def _run(self) -> None:
        await self._beat()
