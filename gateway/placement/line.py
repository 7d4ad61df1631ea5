"""Waiting for a seat: the asynchronous side of the queue.

A seat is taken in the moment in which it is free, in the name of the one who waits; so nobody else can take it before
that task runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from gateway.errors import GatewayError
from gateway.placement.queue import Full, Priority, Queue

RETRY_AFTER_S = 2


class Closable(Protocol):
    def close(self) -> None: ...


G = TypeVar("G", bound=Hashable)
S = TypeVar("S", bound=Closable)


class Waiter(Generic[S]):
    """One request's turn, which comes once."""

    def __init__(self, take: Callable[[], S | None]) -> None:
        self._take = take
        self.turn: asyncio.Future[S | None] = asyncio.get_running_loop().create_future()

    def come(self) -> None:
        if self.turn.done():
            return  # its client has left in this moment
        try:
            self.turn.set_result(self._take())
        except Exception as error:
            self.turn.set_exception(error)

    def give_up(self) -> None:
        """Close what was taken in this waiter's name and never reached it."""
        if self.turn.done() and not self.turn.cancelled() and not self.turn.exception():
            seat = self.turn.result()
            if seat is not None:
                seat.close()


class Line(Generic[G, S]):
    """`has_room` says of a group whether one of it would find a seat, or could find out that there is none."""

    def __init__(self, name: str, limit: int, has_room: Callable[[G], bool]) -> None:
        self.queue: Queue[G, Waiter[S]] = Queue(limit)
        self._name = name
        self._has_room = has_room

    async def enter(self, group: G, priority: Priority, timeout_s: float, take: Callable[[], S | None]) -> S | None:
        """What `take` gives, at once or after waiting. GatewayError 429 if too many wait, 503 after `timeout_s`."""
        self.move()
        if self._has_room(group):
            return take()
        waiter = Waiter(take)
        try:
            ticket = self.queue.join(group, priority, waiter)
        except Full:
            raise _full(self._name, self.queue.limit) from None
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter.turn
        except TimeoutError:
            waiter.give_up()
            raise _too_late(self._name, timeout_s) from None
        except BaseException:
            waiter.give_up()
            raise
        finally:
            self.queue.leave(ticket)

    def move(self) -> None:
        """Something may have become free: let those in for whom there is room."""
        while len(self.queue) and (ticket := self.queue.call(self._has_room)):
            ticket.value.come()


def _full(name: str, limit: int) -> GatewayError:
    message = f"The replicas of pool {name} are busy and {limit} requests wait already. Try again shortly."
    return GatewayError(message, code="queue_full", status=429, retry_after_s=RETRY_AFTER_S)


def _too_late(name: str, timeout_s: float) -> GatewayError:
    message = f"No replica of pool {name} became free within {timeout_s:g} s. Try again shortly."
    return GatewayError(message, code="queue_timeout", status=503, retry_after_s=RETRY_AFTER_S)
