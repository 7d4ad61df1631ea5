"""A Redis that fails in every way: no request fails for it, and none is counted twice or forgotten."""

from __future__ import annotations

import pytest

from tests.gateway.bad_input import redis as fake
from tests.gateway.bad_input.shapes import GOOD, PATHS, balanced

pytestmark = pytest.mark.anyio

FAULTS = {
    "garbage": fake.GARBAGE,
    "read-only": fake.READ_ONLY,
    "out of memory": fake.OUT_OF_MEMORY,
    "NOAUTH": fake.NO_AUTH,
    "closes in mid-command": None,
    "half a reply": fake.HALF,
    "a number": fake.WRONG_TYPE,
    "another list": fake.NONSENSE,
    "an endless string": fake.ENDLESS,
}


@pytest.fixture
async def broken(anyio_backend):
    started = []

    async def make(*args):
        started.append(await fake.FakeRedis(*args).start())
        return started[-1]

    yield make
    for each in started:
        await each.stop()


@pytest.mark.parametrize("fault", FAULTS)
async def test_requests_go_on(engine, gateway, broken, eventually, fault):
    store, upstream = await broken(FAULTS[fault]), await engine()
    front = await gateway(upstream, redis_url=store.url, lookup_budget_s=0.1)
    for path in PATHS:
        for _ in range(2):
            answer = await front.http.post(path, json=GOOD[path])
            assert answer.status_code == 200, answer.text
    assert store.asked
    assert len(upstream.seen) == 2 * len(PATHS)
    assert await front.metric("binding_lookups_total") == 2 * len(PATHS)
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("pong", [fake.NO_AUTH, fake.GARBAGE, fake.WRONG_TYPE, None], ids=repr)
async def test_a_store_that_is_none_from_the_start(engine, gateway, broken, eventually, pong):
    store, upstream = await broken(fake.GARBAGE, pong), await engine()
    front = await gateway(upstream, redis_url=store.url)
    assert (await front.chat([])).status_code == 200
    await eventually(lambda: balanced(front, upstream))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_keys_in_it_can_not_be_read(engine, gateway, broken, eventually, path, fault):
    """Nobody is let in by accident: 503, or 401 where the store says that there is no such key."""
    store, upstream = await broken(FAULTS[fault]), await engine()
    front = await gateway(upstream, redis_url=store.url, keys="redis", lookup_budget_s=0.1)
    answer = await front.http.post(path, json=GOOD[path], headers={"authorization": "Bearer sk-sapwood-x"})
    assert answer.status_code in (401, 503), answer.text
    assert not upstream.seen
    await eventually(lambda: balanced(front, upstream))
