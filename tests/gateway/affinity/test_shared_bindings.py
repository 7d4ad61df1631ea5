"""Bindings over a real Valkey: agreement, compare-and-set, budget, outage and return."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis.asyncio

from gateway.affinity.base import Binding, Level, decode_binding
from gateway.affinity.bindings import Bindings, BindingsMode
from gateway.affinity.embedded import embedded_redis
from gateway.affinity.epochs import StandInEpochs
from gateway.affinity.keys import LookupKey
from gateway.affinity.link import LinkState, StoreLink
from gateway.affinity.local import LocalBindings
from gateway.affinity.redis_store import RedisStore

pytestmark = pytest.mark.anyio
NOW = 1_000_000


def binding(used_ms, replica="http://r"):
    return Binding(replica, "e", 10, "l", used_ms)


def wanted(*keys):
    return [LookupKey(key, Level.PREFIX) for key in keys]


def over(link, budget_s=1.0):
    return Bindings(link, LocalBindings(100, 60_000), ttl_s=60, budget_s=budget_s, clock_ms=lambda: NOW)


@pytest.fixture
async def shared(redis_url):
    """Two gateways' bindings over one Valkey."""
    links = [StoreLink(RedisStore(redis_url)) for _ in range(2)]
    for link in links:
        await link.start()
    yield [over(link) for link in links]
    for link in links:
        await link.close()


async def test_what_one_binds_the_other_finds_in_order(shared):
    one, other = shared
    await one.bind({"{t}:a": binding(NOW, "http://a"), "{t}:b": binding(NOW, "http://b")})
    found = await other.find(wanted("{t}:none", "{t}:b", "{t}:a"))
    assert found.shared
    assert [match.binding.replica for match in found.matches] == ["http://b", "http://a"]


async def test_compare_and_set_by_last_use(shared, redis_url):
    """Asked of the store itself: the local mirrors would hide what it holds."""
    one, other = shared
    async with redis.asyncio.Redis.from_url(redis_url) as client:

        async def stored():
            return decode_binding(await client.get("k")).replica

        await one.bind({"k": binding(NOW, "http://new")})
        await other.bind({"k": binding(NOW - 1, "http://late")})
        assert await stored() == "http://new"
        await other.bind({"k": binding(NOW, "http://same")})
        assert await stored() == "http://same"
        await one.bind({"k": binding(NOW + 1, "http://newer")})
        assert await stored() == "http://newer"
        assert 0 < await client.pttl("k") <= 60_000


async def test_garbage_and_wrong_types_are_replaced(shared, redis_url):
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.set("k", b"\xff garbage")
        await client.lpush("list", "x")
        assert not (await shared[0].find(wanted("k", "list"))).matches
        await shared[0].bind({"k": binding(NOW), "list": binding(NOW)})
        assert len((await shared[1].find(wanted("k", "list"))).matches) == 2


async def test_killed_and_back(eventually):
    with embedded_redis() as url:
        link = StoreLink(RedisStore(url))
        await link.start()
        bindings = over(link)
        await bindings.bind({"k": binding(NOW)})
        async with redis.asyncio.Redis.from_url(url) as client:
            with pytest.raises(redis.exceptions.ConnectionError):
                await client.execute_command("SHUTDOWN", "NOSAVE", "FORCE")
        found = await bindings.find(wanted("k"))
        assert not found.shared
        assert found.matches[0].binding == binding(NOW)
        assert bindings.mode is BindingsMode.FALLBACK
        assert bindings.bind({"k": binding(NOW + 1)}) is None
    await link.close()


async def test_apart_only_when_others_write_and_the_store_is_away():
    with embedded_redis() as url:
        links = [StoreLink(RedisStore(url)) for _ in range(2)]
        for link in links:
            await link.start()
        one, other = (over(link) for link in links)
        await one.bind({"k": binding(NOW + 1)})
        await one.find(wanted("k"))
        await other.find(wanted("k"))
        assert not any(each.apart for each in (one, other)), "while the store answers nobody is"
    await one.find(wanted("k"))
    await other.find(wanted("k"))
    assert not one.apart, "it has seen no writes but its own"
    assert other.apart
    for link in links:
        await link.close()


async def test_reconnects_by_itself(redis_url, eventually):
    class Flaky(RedisStore):
        broken = True

        async def ping(self):
            if self.broken:
                raise ConnectionError("no")
            await super().ping()

    link = StoreLink(Flaky(redis_url))
    await link.start()
    assert link.state is LinkState.DOWN
    Flaky.broken = False
    await eventually(lambda: link.state is LinkState.UP)
    await link.close()


async def test_slow_store_costs_no_more_than_the_budget(redis_url, eventually):
    """A paused server: each look-up ends in its budget, and once several are overdue at once."""
    link = StoreLink(RedisStore(redis_url))
    await link.start()
    bindings = over(link, budget_s=0.02)
    bindings.bind({"k": binding(NOW)})
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await eventually(lambda: client.exists("k"))
        await client.execute_command("CLIENT", "PAUSE", "700", "ALL")
        start = time.monotonic()
        found = [await bindings.find(wanted("k")) for _ in range(40)]
        assert time.monotonic() - start < 0.6
        assert all(not each.shared and each.matches for each in found)

        async def shared():
            return (await bindings.find(wanted("k"))).shared

        await eventually(shared)
    await link.close()


async def test_read_only_store_is_no_error(shared, redis_url):
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            await shared[0].bind({"k": binding(NOW)})
            found = await shared[0].find(wanted("k"))
            assert found.shared, "a server that refuses writes still answers look-ups"
            assert found.matches[0].binding == binding(NOW)
        finally:
            await client.execute_command("REPLICAOF", "NO", "ONE")


async def test_without_redis():
    bindings = over(None)
    bindings.bind({"k": binding(NOW)})
    found = await bindings.find(wanted("k"))
    assert (found.shared, len(found.matches), bindings.mode) == (False, 1, BindingsMode.LOCAL)


async def test_stand_in_epochs_are_agreed_on(redis_url):
    links = [StoreLink(RedisStore(redis_url)) for _ in range(2)]
    await asyncio.gather(*(link.start() for link in links))
    one, other = (StandInEpochs(link, 1.0) for link in links)
    first = await one.current("http://r", 1)
    assert await other.current("http://r", 2) == first
    renewed = await other.renew("http://r", 3)
    assert renewed != first
    assert await one.current("http://r", 4) == renewed
    await asyncio.gather(*(link.close() for link in links))
    alone = StandInEpochs(None, 1.0)
    assert await alone.current("http://r", 5) == await alone.current("http://r", 6) == "seen-5"


async def test_ones_own_without_asking(shared, redis_url):
    one, other = shared
    await one.bind({"{t}:old": binding(NOW, "http://a")})
    await other.bind({"{t}:longer": binding(NOW, "http://b")})
    assert one.own("{t}:old") == binding(NOW, "http://a")
    assert one.own("{t}:longer") is None
    found = one.recall(wanted("{t}:longer", "{t}:old"))
    assert (found.shared, [match.binding.replica for match in found.matches]) == (True, ["http://a"])
