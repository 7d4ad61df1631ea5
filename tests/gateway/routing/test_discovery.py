"""Replicas by the name service, whose answers are given by the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from gateway.routing.discovery import Discovery, addresses

pytestmark = pytest.mark.anyio


class Names:
    """A name service that answers one question each time that the test says so."""

    def __init__(self):
        self.answers = asyncio.Queue()
        self.found = []
        self.asked = []

    async def resolve(self, host, port):
        self.asked.append((host, port))
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def discovery(self, names):
        discovery = Discovery(lambda pool, urls: self.found.append((pool, urls)), self.resolve)
        discovery.follow(names, interval_s=0.001)
        try:
            yield discovery
        finally:
            await discovery.close()


async def test_each_address_is_a_replica_and_changes_are_told(eventually):
    names = Names()
    async with names.discovery({"p": "engines:8100"}) as discovery:
        for answer in (["10.0.0.1", "fd00::1"], ["10.0.0.1", "fd00::1"], ["10.0.0.2"]):
            names.answers.put_nowait(answer)
        await discovery.settle(5)
        await eventually(lambda: len(names.asked) == 4)
    assert names.asked[0] == ("engines", 8100)
    assert names.found == [("p", ["http://10.0.0.1:8100", "http://[fd00::1]:8100"]), ("p", ["http://10.0.0.2:8100"])]


async def test_a_name_service_that_is_away_changes_nothing(eventually, caplog):
    names = Names()
    away = socket.gaierror(-3, "Temporary failure in name resolution")
    async with names.discovery({"p": "engines:8100"}):
        for answer in (["10.0.0.1"], away, away, ["10.0.0.1"]):
            names.answers.put_nowait(answer)
        await eventually(lambda: len(names.asked) == 5)
    assert names.found == [("p", ["http://10.0.0.1:8100"])]
    assert len(caplog.records) == 1
    assert "pool p: engines does not resolve" in caplog.text


async def test_a_name_that_is_gone_from_the_configuration_is_asked_for_no_more(eventually):
    names = Names()
    async with names.discovery({"p": "old:1"}) as discovery:
        await eventually(lambda: names.asked)
        discovery.follow({"p": "new:2"}, interval_s=0.001)
        await eventually(lambda: len(names.asked) == 2)
        names.answers.put_nowait(["10.0.0.1"])
        await eventually(lambda: names.found)
    assert names.found == [("p", ["http://10.0.0.1:2"])]


async def test_a_real_name():
    assert "127.0.0.1" in await addresses("localhost", 80)
