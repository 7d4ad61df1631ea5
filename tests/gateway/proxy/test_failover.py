"""A replica that is gone, or says so, is left before the first byte; the client notices nothing."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "hi"}]


async def homes(front, upstreams):
    """The replica that a first request went to, and the other."""
    await front.chat(USER)
    home = next(u for u in upstreams if u.seen)
    return home, next(u for u in upstreams if u is not home)


async def test_a_dead_home_is_left_and_taken_back_with_nothing(engine, gateway, eventually):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams, probe_interval_s=30)
    home, other = await homes(front, upstreams)
    await home.stop()
    answer = await front.chat(USER)
    assert answer.status_code == 200
    assert answer.headers["x-sapwood-replica"] == other.url
    assert (await front.replica(home.url))["state"] == "down"
    assert await front.metric("failovers_total", replica=home.url) >= 1
    assert await front.metric("replica_up", replica=home.url) == 0
    await home.start()
    assert (await front.chat(USER)).headers["x-sapwood-replica"] == other.url


async def test_a_replica_comes_back_on_its_own(engine, gateway, eventually):
    upstream = await engine()
    front = await gateway(upstream)
    await upstream.stop()
    assert (await front.chat(USER)).status_code == 503
    await upstream.start()

    async def ready():
        return (await front.http.get("/ready")).status_code == 200

    await eventually(ready)
    assert (await front.chat(USER)).status_code == 200


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_unavailable_is_tried_elsewhere(engine, gateway, status):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams)
    home, other = await homes(front, upstreams)

    async def refuse(request):
        await request.raw(b"later", status)

    home.behave = refuse
    answer = await front.chat(USER)
    assert (answer.status_code, answer.headers["x-sapwood-replica"]) == (200, other.url)
    other.behave = refuse
    assert (await front.chat(USER)).content == b"later"


@pytest.mark.parametrize("when", ["before the head", "after the head"])
async def test_dying_before_the_first_byte(engine, gateway, when):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams)
    home, other = await homes(front, upstreams)

    async def die(request):
        if when == "after the head":
            await request.sse_head(home.headers)
        await home.stop()

    home.behave = die
    answer = await front.chat(USER, stream=True)
    assert (answer.status_code, answer.headers["x-sapwood-replica"]) == (200, other.url)
    for upstream in upstreams:
        assert (await front.replica(upstream.url))["in_flight"] == 0


async def test_one_broken_connection_is_forgiven(engine, gateway):
    """As of an idle connection that the replica closes just when it is used again."""
    upstream = await engine()
    front = await gateway(upstream)

    async def once(request):
        upstream.behave = upstream.answer
        request.cut()

    upstream.behave = once
    assert (await front.chat(USER)).status_code == 200
    assert len(upstream.seen) == 2
    assert (await front.replica(upstream.url))["state"] == "healthy"


async def test_a_request_that_kills_is_not_handed_around(engine, gateway):
    upstreams = [await engine() for _ in range(5)]

    async def cut(request):
        request.cut()

    for upstream in upstreams:
        upstream.behave = cut
    front = await gateway(*upstreams, probe_interval_s=30)
    assert (await front.chat(USER)).json()["error"]["code"] == "no_replica"
    assert sum(len(u.seen) for u in upstreams) <= 4


async def test_unhealthy_by_its_own_word(engine, gateway, eventually):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams)
    home, other = await homes(front, upstreams)
    home.healthy = False

    async def down():
        return (await front.replica(home.url))["state"] == "down"

    await eventually(down)
    assert (await front.chat(USER)).headers["x-sapwood-replica"] == other.url
