"""Whole requests find their home: over turns, gateways, restarts and a Redis that goes away."""

from __future__ import annotations

import pytest
import redis.asyncio

from gateway.affinity.base import decode_binding
from gateway.affinity.embedded import embedded_redis

pytestmark = pytest.mark.anyio


def talk(topic, turns):
    """A conversation of `turns` user messages with a system prompt of its own, over 4 kB."""
    messages = [{"role": "system", "content": f"You know {topic}. " * 400}]
    for turn in range(turns):
        messages += [{"role": "user", "content": f"{topic} {turn}"}, {"role": "assistant", "content": "ok"}]
    return messages[:-1]


def home_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.headers["x-sapwood-replica"]


async def test_follow_ups_come_home_through_any_gateway(engine, gateway, redis_url):
    upstreams = [await engine(epoch=f"boot-{n}") for n in range(2)]
    fronts = [await gateway(*upstreams, redis_url=redis_url) for _ in range(2)]
    for topic in range(12):
        homes = [home_of(await fronts[turn % 2].chat(talk(topic, turn + 1))) for turn in range(4)]
        assert len(set(homes)) == 1
    assert {len(u.seen) > 0 for u in upstreams} == {True}, "all conversations went to one replica"
    hits = [await front.metric("binding_lookups_total", result="hit") for front in fronts]
    assert sum(hits) >= 36


async def test_a_b_a_b(engine, gateway):
    """Two prompts on two replicas: one each, and each second call comes home (production-stack#1045)."""
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams)
    homes = [home_of(await front.chat(talk(topic, 1))) for topic in "ABAB"]
    assert homes[0] != homes[1]
    assert homes[:2] == homes[2:]


async def test_tool_results_count(engine, gateway):
    """Conversations that differ in a tool result only are not each other's turns."""
    upstream = await engine()
    front = await gateway(upstream)

    def with_result(result):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": result},
        ]

    sessions = []
    for result in ("1", "2", "1"):
        await front.chat(with_result(result))
        sessions.append(upstream.seen[-1].headers["x-sapwood-session"])
    assert sessions[0] == sessions[2] != sessions[1]


async def test_a_restarted_engine_is_fenced(engine, gateway, redis_url, eventually):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams, redis_url=redis_url)
    home_url = home_of(await front.chat(talk("A", 1)))
    home = next(u for u in upstreams if u.url == home_url)
    home.epoch = "boot-2"

    async def seen():
        return (await front.replica(home.url))["epoch"] == "boot-2"

    await eventually(seen)
    assert (await front.chat(talk("A", 2))).status_code == 200
    assert await front.metric("binding_lookups_total", result="stale_epoch") == 1
    again = home_of(await front.chat(talk("A", 2)))
    assert again == home_of(await front.chat(talk("A", 3)))
    assert await front.metric("binding_lookups_total", result="hit") == 2


async def test_servers_without_epochs_get_stand_ins(engine, gateway, redis_url, eventually):
    upstreams = [await engine(epoch=None), await engine(epoch=None)]
    fronts = [await gateway(*upstreams, redis_url=redis_url) for _ in range(2)]
    homes = [home_of(await front.chat(talk("A", 1))) for front in fronts]
    assert homes[0] == homes[1]
    assert await fronts[1].metric("binding_lookups_total", result="hit") == 1
    home = next(u for u in upstreams if u.url == homes[0])
    before = (await fronts[0].replica(home.url))["epoch"]
    await home.stop()

    async def in_state(state):
        replicas = [await front.replica(home.url) for front in fronts]
        return all(r["state"] == state for r in replicas) and [r["epoch"] for r in replicas]

    await eventually(lambda: in_state("down"))
    await home.start()

    async def agreed():
        epochs = await in_state("healthy")
        return epochs and len(set(epochs)) == 1 and epochs[0] != before

    await eventually(agreed)
    for front in fronts:
        await front.chat(talk("A", 2))
    assert sum([await front.metric("binding_lookups_total", result="stale_epoch") for front in fronts]) == 1


async def test_redis_killed_in_the_middle(engine, gateway):
    upstreams = [await engine(), await engine()]
    with embedded_redis() as url:
        front = await gateway(*upstreams, redis_url=url)
        first = home_of(await front.chat(talk("A", 1)))
        assert (await front.info())["bindings"] == "shared"
    assert home_of(await front.chat(talk("A", 2))) == first  # known here, so it is the write that finds Redis gone
    assert home_of(await front.chat(talk("A", 3))) == first
    assert (await front.info())["bindings"] == "fallback"
    assert await front.metric("binding_lookups_total", result="fallback") == 1


async def test_a_client_that_stays_costs_no_round_trip(engine, gateway, redis_url, eventually):
    """Each turn writes when its answer begins and when it ends; only the first is looked up."""
    upstream = await engine()
    fronts = [await gateway(upstream, redis_url=redis_url) for _ in range(2)]
    calls = []
    for turn in (1, 2, 3):
        before = await fronts[0].metric("redis_seconds_count")
        await fronts[0].chat(talk("A", turn))

        async def written(before=before, least=2 + (turn == 1)):
            return await fronts[0].metric("redis_seconds_count") >= before + least

        await eventually(written)
        calls.append(await fronts[0].metric("redis_seconds_count") - before)
    assert calls[1] == calls[2] == calls[0] - 1


async def test_redis_absent_from_the_start(engine, gateway):
    upstreams = [await engine(), await engine()]
    front = await gateway(*upstreams, redis_url="redis://127.0.0.1:1/0")
    homes = [home_of(await front.chat(talk("A", turn))) for turn in (1, 2, 3)]
    assert len(set(homes)) == 1


async def test_sessions_find_home_after_their_history_was_changed(engine, gateway, redis_url):
    upstreams = [await engine() for _ in range(4)]
    fronts = [await gateway(*upstreams, redis_url=redis_url) for _ in range(2)]
    for n in range(8):
        session = {"x-session-id": f"s{n}"}
        home = home_of(await fronts[0].chat(talk(f"old {n}", 2), session))
        assert home_of(await fronts[1].chat(talk(f"compacted {n}", 1), session)) == home


async def test_tenants_do_not_share_bindings(engine, gateway, redis_url):
    front = await gateway(await engine(), redis_url=redis_url)
    for key in "ab":
        await front.chat(talk("A", 1), {"authorization": f"Bearer {key}"})
    assert await front.metric("binding_lookups_total", result="miss") == 2
    assert await front.metric("binding_lookups_total", result="hit") == 0


async def test_bindings_hold_the_engines_own_count(engine, gateway, redis_url, eventually):
    upstream = await engine()
    front = await gateway(upstream, redis_url=redis_url)
    await front.chat([{"role": "user", "content": "x" * 4000}])
    async with redis.asyncio.Redis.from_url(redis_url) as client:

        async def counted():
            return [decode_binding(await client.get(key)).tokens for key in await client.keys("sapwood:{*")] == [40]

        await eventually(counted, "the count of the answer's usage")
