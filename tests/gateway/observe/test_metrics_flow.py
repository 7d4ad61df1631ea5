"""The exposition as a scraper reads it, and counters that balance over requests of every end."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "a question " * 200}]
ROUTE = "/v1/chat/completions"


async def samples(front):
    """Every sample by name and labels."""
    text = (await front.http.get("/metrics")).text
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation for family in families)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def total(found, name, **labels):
    wanted = set(labels.items())
    return sum(value for (each, own), value in found.items() if each == f"sapwood_gateway_{name}" and wanted <= own)


def streaming(upstream, usage):
    async def behave(request):
        await request.sse_head(upstream.headers)
        for delta in ({"content": "a"}, {"content": "b"}):
            await request.sse_piece(b"data: %s\n\n" % json.dumps({"choices": [{"delta": delta}]}).encode())
        last = {"choices": [{"delta": {}, "finish_reason": "length"}], "usage": usage}
        await request.sse_piece(b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(last).encode())
        await request.sse_end()

    upstream.behave = behave


async def test_counters_balance(engine, gateway, eventually):
    upstream = await engine()
    front = await gateway(upstream)
    usage = {"prompt_tokens": 900, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 600}}
    streaming(upstream, usage)
    for _ in range(3):
        assert (await front.chat(USER, stream=True)).status_code == 200
    streaming(upstream, {"prompt_tokens": 100, "completion_tokens": 1})
    await front.chat(USER, stream=True)
    await front.http.post(ROUTE, content=b"{")

    async def dies(request):
        await request.sse_head(upstream.headers)
        await request.sse_piece(b"data: 1\n\n")
        request.cut()

    upstream.behave = dies
    await front.chat(USER, stream=True)
    upstream.behave = upstream.hang
    _, writer = await front.send_raw(json.dumps({"model": "m", "messages": USER}).encode())
    await eventually(lambda: upstream.waiting)
    writer.transport.abort()

    async def gone():
        return total(await samples(front), "client_disconnects_total", route=ROUTE) == 1

    await eventually(gone)
    found = await samples(front)
    statuses = {status: total(found, "requests_total", route=ROUTE, status=status) for status in ("200", "400", "499")}
    assert statuses == {"200": 5, "400": 1, "499": 1}
    assert total(found, "requests_total") == 7
    assert total(found, "errors_total", code="invalid_json") == 1
    assert total(found, "errors_total", code="upstream_died") == 1
    assert total(found, "ttft_seconds_count", route=ROUTE) == 5
    assert total(found, "queue_seconds_count") == 5
    assert total(found, "tpot_seconds_count", route=ROUTE) == 3
    at = {"route": ROUTE, "replica": upstream.url}
    assert total(found, "prompt_tokens_total", **at) == 2800
    assert total(found, "cached_tokens_total", **at) == 1800
    assert total(found, "computed_tokens_total", **at) == 900, "what a replica does not report is not counted"
    assert total(found, "completion_tokens_total", **at) == 10
    assert total(found, "in_flight") == 0
    assert total(found, "placements_total") >= 6


async def test_labels_are_bounded(engine, gateway):
    """Whatever clients write, the number of series stays the same."""
    front = await gateway(await engine())
    counts = []
    for n in range(4):
        headers = {"x-session-id": f"s{n}", "authorization": f"Bearer {n}", "traceparent": f"{n}"}
        await front.http.post(ROUTE, json={"model": f"m{n}", "messages": USER, "user": f"u{n}"}, headers=headers)
        await front.http.post(f"/v1/nothing/{n}", json={})
        counts.append(Counter(name for name, _ in await samples(front)))
    assert len({frozenset(count.items()) for count in counts[1:]}) == 1


async def test_redis_is_timed(engine, gateway, redis_url):
    front = await gateway(await engine(), redis_url=redis_url)
    await front.chat(USER)
    assert total(await samples(front), "redis_seconds_count") >= 2
