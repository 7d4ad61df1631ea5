"""Four gateways that share one Valkey agree on where conversations live, over restarts and an outage of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest
import redis

from gateway.affinity.embedded import embedded_redis

pytestmark = pytest.mark.anyio
GATEWAYS, REPLICAS, SESSIONS, TURNS = 4, 4, 12, 5


class Fleet:
    """Each turn of a session goes to the next gateway."""

    def __init__(self, gateways, replicas):
        self.gateways, self.replicas = gateways, replicas

    async def ask(self, session, turn):
        """The home of one turn; a lost request fails the test."""
        messages = [{"role": "system", "content": f"You know project {session}. " * 200}]
        for number in range(turn):
            messages += [{"role": "user", "content": f"task {session}, step {number}. " * 20}]
            messages += [{"role": "assistant", "content": f"done {number}"}]
        answer = await self.gateways[(session + turn) % GATEWAYS].chat(messages[:-1])
        assert answer.status_code == 200, answer.text
        return answer.headers["x-sapwood-replica"]

    async def turn(self, number):
        """All sessions' homes, one request after the other."""
        return [await self.ask(session, number) for session in range(SESSIONS)]

    async def turn_at_once(self, number):
        return await asyncio.gather(*(self.ask(session, number) for session in range(SESSIONS)))

    async def all_see(self, url, **wanted):
        seen = [await gateway.replica(url) for gateway in self.gateways]
        return all(replica[key] == value for replica in seen for key, value in wanted.items())

    async def lookups(self, result):
        return sum([await gateway.metric("binding_lookups_total", result=result) for gateway in self.gateways])

    async def bindings_are(self, mode):
        """Of every gateway."""
        return all([(await gateway.info())["bindings"] == mode for gateway in self.gateways])


@pytest.fixture
async def fleet(engine, gateway, own_valkey):
    replicas = [await engine(epoch=f"boot-{number}") for number in range(REPLICAS)]
    return Fleet([await gateway(*replicas, redis_url=own_valkey) for _ in range(GATEWAYS)], replicas)


@pytest.fixture
def own_valkey():
    """Not the session's: this one may be halted."""
    with embedded_redis() as url:
        yield url


@contextlib.contextmanager
def halted(url):
    """The server takes connections and answers nothing."""
    with redis.Redis.from_url(url) as client:
        process = client.info("server")["process_id"]
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


async def test_every_follow_up_finds_its_home(fleet):
    first = await fleet.turn(1)
    assert len(set(first)) > 1, "all conversations went to one replica"
    for number in range(2, TURNS + 1):
        assert await fleet.turn(number) == first
    assert await fleet.lookups("hit") == SESSIONS * (TURNS - 1)


async def test_conversations_of_a_restarted_replica_move_once(fleet, eventually):
    first = await fleet.turn(1)
    assert await fleet.turn(2) == first
    restarted = next(replica for replica in fleet.replicas if replica.url == first[0])
    await restarted.stop()
    await eventually(lambda: fleet.all_see(restarted.url, state="down"))
    moved = await fleet.turn(3)
    for before, after in zip(first, moved, strict=True):
        assert after != restarted.url
        assert after == before or before == restarted.url
    restarted.epoch = "boot-again"
    await restarted.start()
    await eventually(lambda: fleet.all_see(restarted.url, state="healthy", epoch="boot-again"))
    for number in range(4, TURNS + 1):
        assert await fleet.turn(number) == moved


async def test_an_epoch_that_changes_between_probes_ends_its_bindings(fleet, eventually):
    """The replica was never seen to be gone."""
    first = await fleet.turn(1)
    restarted = next(replica for replica in fleet.replicas if replica.url == first[0])
    restarted.epoch = "boot-again"
    await eventually(lambda: fleet.all_see(restarted.url, epoch="boot-again"))
    moved = await fleet.turn(2)
    assert await fleet.lookups("stale_epoch") == first.count(restarted.url)
    assert [after for before, after in zip(first, moved, strict=True) if before != restarted.url] == [
        before for before in first if before != restarted.url
    ]
    for number in range(3, TURNS + 1):
        assert await fleet.turn(number) == moved


async def test_a_halted_store_loses_no_request_and_no_home_once_it_is_back(fleet, own_valkey, eventually):
    first = await fleet.turn(1)
    assert await fleet.turn(2) == first
    with halted(own_valkey):
        await fleet.turn_at_once(3)
        await eventually(lambda: fleet.bindings_are("fallback"))
        met = await fleet.turn(4)
        assert len(set(met)) > 1, "all conversations meet at one replica"
        for number in (5, 6):
            assert await fleet.turn(number) == met, "gateways that can't share bindings look at the same place"
    await eventually(lambda: fleet.bindings_are("shared"))
    back = await fleet.turn(7)
    for number in range(8, 8 + TURNS):
        assert await fleet.turn(number) == back
