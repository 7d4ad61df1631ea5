"""The race between an answer and its client's leave, without a server."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import ClientGone
from gateway.proxy.body import while_connected

pytestmark = pytest.mark.anyio


async def disconnect():
    return {"type": "http.disconnect"}


async def work(cleaned, turns):
    try:
        for _ in range(turns):
            await asyncio.sleep(0)
        return "done"
    finally:
        cleaned.append(True)


async def test_a_disconnect_after_the_whole_answer_stops_nothing():
    cleaned = []
    assert await while_connected(disconnect, work(cleaned, 20), lambda: True) == "done"


async def test_a_disconnect_before_it_cancels_and_waits_for_the_clean_up():
    cleaned = []
    with pytest.raises(ClientGone):
        await while_connected(disconnect, work(cleaned, 10**6), lambda: False)
    assert cleaned == [True]


async def test_the_works_own_error_comes_through():
    async def fail():
        raise ValueError("x")

    async def never():
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="x"):
        await while_connected(never, fail(), lambda: False)
