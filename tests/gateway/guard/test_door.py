"""Through a running gateway: who is let in, and what the upstream learns of it."""

from __future__ import annotations

import json

import pytest

from gateway.guard.key_store import FileKeys
from gateway.guard.keys import make_key

pytestmark = pytest.mark.anyio
HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture
def store(tmp_path):
    return FileKeys(tmp_path / "keys.json")


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer sk-nobody"}, {"x-api-key": "sk-nobody"}])
async def test_without_a_known_key_nothing_goes_upstream(engine, gateway, store, headers):
    upstream = await engine()
    store.add(make_key("a", "a")[1])
    front = await gateway(upstream, keys=str(store.path))
    answer = await front.chat(HELLO, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert upstream.seen == []


async def test_the_upstream_gets_the_tenant_and_not_the_key(engine, gateway, store):
    upstream = await engine()
    secrets = {}
    for name, tenant in (("a1", "team-a"), ("a2", "team-a"), ("b", "team-b")):
        secrets[name], record = make_key(name, tenant)
        store.add(record)
    front = await gateway(upstream, keys=str(store.path))
    for name in secrets:
        assert (await front.chat(HELLO, headers=bearer(secrets[name]))).status_code == 200
    seen = [request.headers for request in upstream.seen]
    assert all("authorization" not in headers for headers in seen)
    a1, a2, b = (headers["x-sapwood-tenant"] for headers in seen)
    assert a1 == a2 != b
    assert "team" not in a1


async def test_requests_beyond_the_limit_are_told_when_to_come_again(engine, gateway, store, redis_url):
    upstream = await engine()
    secret, record = make_key("a", "a", requests_per_minute=2)
    store.add(record)
    one, other = [await gateway(upstream, keys=str(store.path), redis_url=redis_url) for _ in range(2)]
    statuses = [(await front.chat(HELLO, headers=bearer(secret))).status_code for front in (one, other)]
    assert statuses == [200, 200]
    refused = await one.chat(HELLO, headers=bearer(secret))  # both gateways count together
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert len(upstream.seen) == 2


async def test_tokens_are_those_that_the_engine_counted(engine, gateway, store, eventually):
    upstream = await engine()

    async def behave(request):
        usage = {"prompt_tokens": 900, "completion_tokens": 200}
        await request.json({"object": "chat.completion", "usage": usage}, headers=upstream.headers)

    upstream.behave = behave
    secret, record = make_key("a", "a", tokens_per_minute=1000)
    store.add(record)
    front = await gateway(upstream, keys=str(store.path))
    assert (await front.chat(HELLO, headers=bearer(secret))).status_code == 200

    async def refused():
        return (await front.chat(HELLO, headers=bearer(secret))).status_code == 429

    await eventually(refused)
    assert len(upstream.seen) <= 2


async def test_keys_that_can_not_be_read_at_all(engine, gateway, tmp_path):
    broken = tmp_path / "keys.json"
    broken.write_text("{")
    front = await gateway(await engine(), keys=str(broken))
    answer = await front.chat(HELLO, headers=bearer("x"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "keys_unavailable")


async def test_a_large_body_without_a_key_is_answered(engine, gateway, store):
    store.add(make_key("a", "a")[1])
    front = await gateway(await engine(), keys=str(store.path))
    answer = await front.http.post("/v1/chat/completions", content=json.dumps({"x": "y" * 3_000_000}))
    assert answer.status_code == 401
