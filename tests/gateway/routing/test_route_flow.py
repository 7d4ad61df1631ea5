"""Requests find their pool through a real gateway, by model, header, key, shape and weight."""

from __future__ import annotations

import pytest

from gateway.config_pools import PoolConfig, UpstreamKind
from gateway.guard.key_store import FileKeys
from gateway.guard.keys import make_key
from gateway.routing.rules import Rule

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "hi"}]
TALK = [*USER, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def pools(**engines):
    return tuple(PoolConfig(name=name, upstreams=(engine.url,)) for name, engine in engines.items())


def rules(*told):
    return tuple(Rule.model_validate(each) for each in told)


async def served(front, messages=USER, **more):
    answer = await front.chat(messages, **more)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-sapwood-replica"]


async def test_by_model_header_and_shape(engine, gateway):
    agents, bulk = await engine(models=()), await engine(models=())
    front = await gateway(
        pools=pools(agents=agents, bulk=bulk),
        default_pool="agents",
        routes=rules(
            {"pools": "bulk", "model": "qwen*"},
            {"pools": "bulk", "headers": {"X-Team": "data"}},
            {"pools": "agents", "tools": True},
            {"pools": "bulk", "shape": "single_turn", "model": "one"},
            {"pools": "bulk", "shape": "batch"},
        ),
    )
    assert await served(front) == agents.url
    assert await served(front, model="qwen3") == bulk.url
    assert await served(front, headers={"x-team": "data"}) == bulk.url
    assert await served(front, model="one") == bulk.url
    assert await served(front, TALK, model="one") == agents.url
    assert await served(front, model="one", tools=[TOOL]) == agents.url
    assert await served(front, headers={"x-sapwood-priority": "batch"}) == bulk.url
    refused = await front.chat(USER, headers={"x-sapwood-priority": "now"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_header")


async def test_by_key_and_tenant(engine, gateway, tmp_path):
    agents, ci, red = await engine(), await engine(), await engine()
    store = FileKeys(tmp_path / "keys.json")
    secrets = {}
    for name, tenant in (("ci", "blue"), ("laptop", "red"), ("other", "blue")):
        secrets[name], key = make_key(name, tenant)
        store.add(key)
    front = await gateway(
        pools=pools(agents=agents, ci=ci, red=red),
        default_pool="agents",
        keys=str(store.path),
        routes=rules({"pools": "ci", "key": "ci"}, {"pools": "red", "tenant": "red"}),
    )
    for name, upstream in (("ci", ci), ("laptop", red), ("other", agents)):
        assert await served(front, headers={"authorization": f"Bearer {secrets[name]}"}) == upstream.url


async def test_weights_hold_for_a_whole_conversation(engine, gateway):
    one, other = await engine(), await engine()
    front = await gateway(
        pools=pools(one=one, other=other), default_pool="one", routes=rules({"pools": {"one": 1, "other": 1}})
    )
    homes = []
    for number in range(12):
        first = [{"role": "system", "content": "same"}, {"role": "user", "content": f"task {number}"}]
        more = [*first, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "on"}]
        homes.append(await served(front, first))
        assert await served(front, more) == homes[-1]
    assert set(homes) == {one.url, other.url}


async def test_the_next_pool_where_the_first_has_no_replica(engine, gateway):
    first, spare = await engine(), await engine()
    front = await gateway(
        pools=pools(first=first, spare=spare), default_pool="first", routes=rules({"pools": {"first": 1, "spare": 0}})
    )
    assert await served(front) == first.url
    await first.stop()
    assert await served(front) == spare.url
    await spare.stop()
    refused = await front.chat(USER)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


async def test_a_pools_own_credential_takes_the_place_of_the_clients(engine, gateway, monkeypatch):
    monkeypatch.setenv("POOL_KEY", "the-pools")
    upstream = await engine(epoch="")
    pool = PoolConfig(name="a", upstreams=(upstream.url,), api_key_env="POOL_KEY", kind=UpstreamKind.VLLM)
    front = await gateway(pools=(pool,))
    await served(front, headers={"authorization": "Bearer the-clients", "x-api-key": "the-clients"})
    (seen,) = upstream.seen
    assert seen.headers["authorization"] == "Bearer the-pools"
    assert "the-clients" not in str(seen.headers)
    assert "the-pools" not in str(await front.info())


async def test_replicas_by_name(engine, gateway, eventually):
    upstream = await engine()
    front = await gateway(pools=(PoolConfig(name="a", dns=f"localhost:{upstream.port}"),))

    async def ready():
        return (await front.http.get("/ready")).status_code == 200

    await eventually(ready)
    assert await served(front) == upstream.url
    (pool,) = (await front.info())["pools"]
    assert (pool["name"], pool["dns"]) == ("a", f"localhost:{upstream.port}")
    assert upstream.url in pool["replicas"]
