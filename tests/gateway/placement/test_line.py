"""Waiting for a seat: nobody gets two, and none is lost with who leaves."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import GatewayError
from gateway.placement.line import Line
from gateway.placement.queue import Priority

pytestmark = pytest.mark.anyio

LONG_S = 30.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Hall:
    """So many seats for everybody."""

    def __init__(self, seats, limit=10):
        self.free = seats
        self.line = Line("p", limit, lambda group: self.free > 0)

    def take(self):
        self.free -= 1
        return self

    def close(self):
        self.free += 1
        self.line.move()

    def enter(self, priority=Priority.INTERACTIVE, timeout_s=LONG_S):
        return self.line.enter("g", priority, timeout_s, self.take)

    async def waiting(self, *entering):
        """Tasks of those who enter, once all of them wait."""
        tasks = []
        for each in entering:
            tasks.append(asyncio.create_task(each))
            await asyncio.sleep(0)
        assert len(self.line.queue) >= len(tasks)
        return tasks


async def test_a_free_seat_is_taken_at_once():
    hall = Hall(1)
    assert await hall.enter() is hall
    assert (hall.free, len(hall.line.queue)) == (0, 0)


async def test_who_waits_gets_the_seat_that_is_freed():
    hall = Hall(0)
    batch, interactive = await hall.waiting(hall.enter(Priority.BATCH), hall.enter())
    hall.close()
    await interactive
    assert not batch.done()
    hall.close()
    await batch
    assert (hall.free, len(hall.line.queue)) == (0, 0)


async def test_a_newcomer_does_not_pass_those_who_wait():
    hall = Hall(0)
    (first,) = await hall.waiting(hall.enter())
    hall.free = 1  # as of a replica that came back, which nobody has said yet
    second = asyncio.create_task(hall.enter())
    await first
    assert not second.done()
    hall.close()
    await second


async def test_more_than_may_wait_are_refused():
    hall = Hall(0, limit=1)
    (first,) = await hall.waiting(hall.enter())
    with pytest.raises(GatewayError) as refused:
        await hall.enter()
    error = refused.value
    assert (error.code, error.status, error.retry_after_s) == ("queue_full", 429, 2)
    hall.close()
    await first


async def test_the_deadline():
    hall = Hall(0)
    with pytest.raises(GatewayError) as refused:
        await hall.enter(timeout_s=0.001)
    error = refused.value
    assert (error.code, error.status, error.retry_after_s) == ("queue_timeout", 503, 2)
    assert len(hall.line.queue) == 0


async def test_who_leaves_takes_no_seat_along():
    hall = Hall(0)
    leaving, staying = await hall.waiting(hall.enter(), hall.enter())
    hall.close()  # the seat is taken in the name of the first, whose task has not run yet
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await staying
    assert (hall.free, len(hall.line.queue)) == (0, 0)


async def test_an_error_of_taking_is_the_waiters():
    hall = Hall(0)

    def fail():
        raise RuntimeError("no")

    task = asyncio.create_task(hall.line.enter("g", Priority.INTERACTIVE, LONG_S, fail))
    await asyncio.sleep(0)
    hall.close()
    with pytest.raises(RuntimeError):
        await task
