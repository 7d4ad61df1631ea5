"""Records of whole requests, on every way out, and who may see them."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.anyio

SYSTEM = {"role": "system", "content": "You are a careful engineer. " * 100}
STAMPED = "You are a careful engineer. " * 100 + "Now: 05:26:1{}."


def talk(turns, stamp=None):
    head = SYSTEM if stamp is None else {"role": "system", "content": STAMPED.format(stamp)}
    said = [each for n in range(turns) for each in (("user", f"question {n}"), ("assistant", "ok"))][:-1]
    return [head, *({"role": role, "content": text} for role, text in said)]


async def last(front, headers=None):
    return (await front.http.get("/requests?limit=1", headers=headers)).json()["requests"][0]


def answering(upstream, prompt, cached):
    async def behave(request):
        usage = {"prompt_tokens": prompt, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}
        choices = [{"message": {"content": "x"}, "finish_reason": "stop"}]
        await request.json({"choices": choices, "usage": usage}, headers=upstream.headers)

    upstream.behave = behave


async def test_a_session_of_two_turns_and_a_break(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, excerpts=True)
    session = {"x-session-id": "s"}
    answering(upstream, 700, 0)
    first = await front.chat(talk(1, stamp=1), session)
    assert first.headers["x-sapwood-cache"].startswith("miss; ")
    answering(upstream, 740, 700)
    second = await front.chat(talk(2, stamp=1), session)
    assert second.headers["x-sapwood-cache"].startswith("hit; ")
    answering(upstream, 780, 20)
    third = await front.chat(talk(3, stamp=2), session)
    assert third.headers["x-sapwood-cache"].startswith("break; class=timestamp; at=messages[0].content+2812; lost=")

    told = (await front.http.get(f"/requests/{third.headers['x-sapwood-request']}")).json()
    assert told["break"]["class"] == "timestamp"
    assert told["break"]["excerpt"]["old"].startswith("1.")
    assert told["break"]["excerpt"]["new"].startswith("2.")
    assert 0 < told["break"]["lost_tokens_estimated"] <= 740
    assert told["outcome"]["finish"] == "stop"
    assert told["outcome"]["cached_tokens"] == 20
    assert told["placement"]["replica"] == upstream.url

    session = (await front.http.get("/sessions/s")).json()
    assert [each["turn"] for each in session["requests"]] == ["broken", "extended", "first"]
    assert (session["breaks"], session["cached_tokens"], session["prompt_tokens"]) == (1, 720, 2220)
    listed = (await front.http.get("/sessions")).json()["sessions"]
    assert [each["id"] for each in listed] == [session["id"]]
    broken = (await front.http.get("/requests?broken=1")).json()["requests"]
    assert [each["id"] for each in broken] == [told["id"]]
    assert await front.metric("prefix_breaks_total", **{"class": "timestamp"}) == 1
    assert await front.metric("lost_tokens_total", **{"class": "timestamp"}) == told["break"]["lost_tokens_estimated"]


async def test_contents_are_not_quoted_unless_allowed(engine, gateway):
    front = await gateway(await engine())
    for stamp in (1, 2):
        await front.chat(talk(1, stamp), {"x-session-id": "s"})
    assert (await last(front))["break"]["class"] == "timestamp"
    assert (await last(front))["break"]["excerpt"] is None


async def test_without_a_session_the_first_question_links_requests(engine, gateway):
    front = await gateway(await engine())
    for stamp in (1, 2):
        await front.chat(talk(1, stamp))
    assert (await last(front))["break"]["class"] == "timestamp"


@pytest.mark.parametrize("credential", [{"authorization": "Bearer b"}, {"x-api-key": "b"}, {}])
async def test_a_tenant_sees_its_own(engine, gateway, credential):
    front = await gateway(await engine())
    mine = {"authorization": "Bearer a", "x-session-id": "s"}
    answer = await front.chat(talk(1), mine)
    request = answer.headers["x-sapwood-request"]
    assert (await front.http.get(f"/requests/{request}", headers=mine)).status_code == 200
    for path in (f"/requests/{request}", "/sessions/s"):
        foreign = await front.http.get(path, headers=credential)
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (404, "not_found")
    assert (await front.http.get("/requests", headers=credential)).json() == {"requests": []}
    assert (await front.http.get("/sessions", headers=credential)).json() == {"sessions": []}


async def test_keys_are_asked_for(engine, gateway, tmp_path):
    (tmp_path / "keys.json").write_text("[]")
    front = await gateway(await engine(), keys=str(tmp_path / "keys.json"))
    for path in ("/requests", "/requests/x", "/sessions", "/sessions/x"):
        assert (await front.http.get(path)).status_code == 401


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1e3", "²", "9999999999"])
async def test_an_odd_limit(engine, gateway, limit):
    front = await gateway(await engine())
    answer = await front.http.get("/requests", params={"limit": limit})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")


async def test_a_replica_that_was_restarted(engine, gateway, eventually):
    upstream = await engine()
    front = await gateway(upstream)
    answering(upstream, 700, 650)
    await front.chat(talk(1))
    upstream.epoch = "boot-2"

    async def seen():
        return (await front.replica(upstream.url))["epoch"] == "boot-2"

    await eventually(seen)
    answering(upstream, 740, 0)
    await front.chat(talk(2), {"x-unrelated": "1"})
    told = await last(front)
    assert (told["turn"], told["gap"]) == ("extended", {"cause": "replica_restarted", "tokens": 700})
    assert await front.metric("missed_tokens_total", cause="replica_restarted") == 700


async def test_a_prefix_that_was_evicted(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    for prompt, cached in ((700, 650), (740, 0)):
        answering(upstream, prompt, cached)
        await front.chat(talk(1 if cached else 2))
    assert (await last(front))["gap"]["cause"] == "evicted"


async def test_tools_with_other_key_order(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    schema = {"type": "object", "properties": {}}
    for turns, cached, parameters in ((1, 650, schema), (2, 0, dict(reversed(schema.items())))):
        answering(upstream, 700, cached)
        await front.chat(talk(turns), tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    told = await last(front)
    assert (told["turn"], told["gap"]["cause"]) == ("extended", "schema_key_order")


async def test_the_client_leaves(engine, gateway, eventually):
    upstream = await engine()
    upstream.behave = upstream.hang
    front = await gateway(upstream)
    _, writer = await front.send_raw(json.dumps({"model": "m", "messages": talk(1)}).encode())
    await eventually(lambda: upstream.waiting)
    assert (await last(front))["outcome"] is None, "a request under way is there to be seen"
    writer.transport.abort()

    async def ended():
        return (await last(front))["outcome"]

    outcome = await eventually(ended)
    assert (outcome["status"], outcome["error"], outcome["ttft_ms"]) == (499, "client_gone", None)


async def test_the_upstream_dies_in_mid_stream(engine, gateway, eventually):
    upstream = await engine()

    async def behave(request):
        await request.sse_head(upstream.headers)
        await request.sse_piece(b"data: 1\n\n")
        request.cut()

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.chat(talk(1), stream=True)
    assert answer.headers["x-sapwood-cache"].startswith("miss")
    outcome = (await last(front))["outcome"]
    assert (outcome["status"], outcome["error"]) == (200, "upstream_died")
    assert outcome["ttft_ms"] is not None
    assert await front.metric("errors_total", code="upstream_died") == 1


async def test_an_error_of_the_upstream(engine, gateway):
    upstream = await engine()

    async def behave(request):
        await request.json({"error": {"message": "no"}}, status=400)

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.chat(talk(1))
    assert answer.headers["x-sapwood-request"]
    assert (await last(front))["outcome"]["status"] == 400


async def test_no_replica(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    await upstream.stop()
    answer = await front.chat(talk(1))
    told = (await front.http.get(f"/requests/{answer.headers['x-sapwood-request']}")).json()
    assert (told["outcome"]["status"], told["outcome"]["error"]) == (503, "no_replica")
    assert (told["placement"], told["turn"]) == (None, None)


async def test_a_request_that_can_not_be_read_has_an_id(gateway, engine):
    front = await gateway(await engine())
    answer = await front.http.post("/v1/messages", content=b"{")
    assert answer.status_code == 400
    assert answer.headers["x-sapwood-request"].startswith("req_")
    assert (await front.http.get("/requests")).json() == {"requests": []}


async def test_texts_that_are_no_unicode(engine, gateway):
    front = await gateway(await engine(), excerpts=True)
    for tail in ("\\ud800", "\\udfff"):
        body = f'{{"model": "m\\ud800", "messages": [{{"role": "system", "content": "{"x" * 400}{tail}"}}]}}'
        await front.http.post("/v1/chat/completions", content=body, headers={"x-session-id": "s"})
    told = await last(front)
    assert told["model"] == "m?"
    assert told["break"]["excerpt"]["new"] == "?"


async def test_long_names_are_cut(engine, gateway):
    front = await gateway(await engine())
    await front.http.post("/v1/chat/completions", json={"model": "m" * 10_000, "messages": talk(1)})
    assert len((await last(front))["model"]) == 200


async def test_records_reach_the_shared_stream(engine, gateway, redis_url, eventually):
    import redis.asyncio

    front = await gateway(await engine(), redis_url=redis_url, record_stream=True)
    answer = await front.chat(talk(1))
    async with redis.asyncio.Redis.from_url(redis_url, decode_responses=True) as client:

        async def written():
            return await client.xrange("sapwood:requests")

        [(_, fields)] = await eventually(written)
    assert fields["id"] == answer.headers["x-sapwood-request"]
    assert fields["prompt_tokens"] == "40"
    assert "question" not in str(fields)
