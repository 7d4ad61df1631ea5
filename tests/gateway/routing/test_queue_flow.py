"""Waiting for a replica with room, through a real gateway: order, bound, deadline, and clients that leave."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.config_pools import QueueSettings

pytestmark = pytest.mark.anyio


def body(name):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": name}]}).encode()


class Busy:
    """An engine that holds each request until it is let go, by the text of its message."""

    def __init__(self, upstream):
        self.upstream, self.order, self._gates = upstream, [], {}
        upstream.behave = self._hold

    async def _hold(self, request):
        name = json.loads(request.body)["messages"][-1]["content"]
        self.order.append(name)
        await self._gate(name).wait()
        await self.upstream.answer(request)

    def _gate(self, name):
        return self._gates.setdefault(name, asyncio.Event())

    def let_go(self, name):
        self._gate(name).set()


@pytest.fixture
async def crowd(engine, gateway, eventually):
    """A gateway with one seat, which is taken; and a way to ask and to wait until one stands in the queue."""
    tasks = []

    class Crowd:
        async def start(self, **settings):
            self.busy = Busy(await engine())
            self.front = await gateway(self.busy.upstream, queue=QueueSettings(max_in_flight=1, **settings))
            self.first = self.ask("first")
            await eventually(lambda: self.busy.order == ["first"])
            return self

        def ask(self, name, **headers):
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            content = [{"role": "user", "content": name}]
            tasks.append(asyncio.create_task(self.front.chat(content, headers=named)))
            return tasks[-1]

        async def waiting(self, number):
            async def reached():
                return await self.front.metric("queue_waiting") == number

            await eventually(reached, f"{number} in the queue")

        async def idle(self):
            async def reached():
                replica = await self.front.replica(self.busy.upstream.url)
                return (replica["in_flight"], replica["waiting_tokens"]) == (0, 0)

            await self.waiting(0)
            await eventually(reached, "an idle replica")

    yield Crowd()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_interactive_requests_go_first_and_each_in_its_turn(crowd):
    busy = (await crowd.start()).busy
    waiting = []
    for name, priority in (("b1", "batch"), ("i1", "interactive"), ("b2", "batch"), ("i2", "interactive")):
        waiting.append(crowd.ask(name, x_sapwood_priority=priority))
        await crowd.waiting(len(waiting))
    (pool,) = (await crowd.front.info())["pools"]
    assert pool["queue"] == {"length": 1024, "interactive": 2, "batch": 2}
    for name in ("first", "i1", "i2", "b1", "b2"):
        busy.let_go(name)
    assert [(await task).status_code for task in [crowd.first, *waiting]] == [200] * 5
    assert busy.order == ["first", "i1", "i2", "b1", "b2"]
    await crowd.idle()


async def test_beyond_its_bound_requests_are_refused(crowd):
    await crowd.start(length=1)
    second = crowd.ask("second")
    await crowd.waiting(1)
    refused = await crowd.ask("third")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    crowd.busy.let_go("first")
    crowd.busy.let_go("second")
    assert (await second).status_code == 200
    assert crowd.busy.order == ["first", "second"]
    await crowd.idle()


async def test_a_queue_of_length_zero_lets_nobody_wait(crowd):
    await crowd.start(length=0)
    assert (await crowd.ask("second")).json()["error"]["code"] == "queue_full"


@pytest.mark.parametrize("who", ["gateway", "client"])
async def test_the_deadline(crowd, who):
    headers = {"x_sapwood_deadline": "0.05"} if who == "client" else {}
    await crowd.start(timeout_s=0.05 if who == "gateway" else 60)
    refused = await crowd.ask("second", **headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_timeout")
    assert int(refused.headers["retry-after"]) >= 1
    crowd.busy.let_go("first")
    assert (await crowd.first).status_code == 200
    assert crowd.busy.order == ["first"]
    await crowd.idle()


async def test_a_client_that_leaves_the_queue_leaves_nothing_behind(crowd):
    await crowd.start()
    _, writer = await crowd.front.send_raw(body("leaves"))
    await crowd.waiting(1)
    stays = crowd.ask("stays")
    await crowd.waiting(2)
    writer.close()
    await crowd.waiting(1)
    for name in ("first", "stays", "leaves"):
        crowd.busy.let_go(name)
    assert (await stays).status_code == 200
    assert crowd.busy.order == ["first", "stays"]
    await crowd.idle()


async def test_a_seat_is_free_again_when_its_client_leaves(crowd, eventually):
    await crowd.start()
    second = crowd.ask("second")
    await crowd.waiting(1)
    crowd.first.cancel()
    crowd.busy.let_go("second")
    assert (await second).status_code == 200
    await crowd.idle()


async def test_who_waits_for_a_replica_that_dies_hears_so(crowd):
    await crowd.start()
    second = crowd.ask("second")
    await crowd.waiting(1)
    await crowd.busy.upstream.stop()
    assert (await second).json()["error"]["code"] == "no_replica"
    await crowd.waiting(0)


async def test_a_full_home_is_left_for_a_replica_with_room(engine, gateway, eventually):
    upstreams = [Busy(await engine()), Busy(await engine())]
    front = await gateway(*(busy.upstream for busy in upstreams), queue=QueueSettings(max_in_flight=1))
    talk = [{"role": "user", "content": "same"}]
    first = asyncio.create_task(front.chat(talk))
    await eventually(lambda: sum(len(busy.order) for busy in upstreams) == 1)
    second = asyncio.create_task(front.chat(talk))
    await eventually(lambda: all(busy.order == ["same"] for busy in upstreams))
    for busy in upstreams:
        busy.let_go("same")
    assert [(await first).status_code, (await second).status_code] == [200, 200]
