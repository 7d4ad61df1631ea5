"""Bad requests and dying upstreams: one clear error, and the counters balance."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "hi"}]
GOOD = json.dumps({"model": "m", "messages": USER}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b"",
        b"[" * 10_000_000,
        b'{"a":' * 2_000_000,
        b'{"tools":' + b"[" * 980 + b"]" * 980 + b"}",
    ],
    ids=lambda body: repr(body[:10]),
)
async def test_bad_bodies(engine, gateway, body):
    upstream = await engine()
    front = await gateway(upstream)
    await front.http.post("/v1/chat/completions", content=GOOD)
    start = time.process_time()
    answer = await front.http.post("/v1/chat/completions", content=body)
    took = time.process_time() - start
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    assert took < 0.1 or len(body) > 10**6  # client and server share this loop for the large ones
    assert (await front.http.post("/v1/chat/completions", content=GOOD)).status_code == 200
    assert len(upstream.seen) == 2


async def test_too_large(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream, max_body_bytes=1000)

    async def pieces():
        for _ in range(50):
            yield b"x" * 100

    for content in (b"x" * 1001, pieces()):
        answer = await front.http.post("/v1/chat/completions", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    assert not upstream.seen
    assert (await front.http.post("/v1/chat/completions", content=GOOD)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nope", 404), ("POST", "/v1/audio/speech", 404), ("GET", "/v1/chat/completions", 405)],
)
async def test_unknown_paths_and_methods(engine, gateway, method, path, status):
    front = await gateway(await engine())
    answer = await front.http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_no_replica(engine, gateway):
    upstream = await engine()
    await upstream.stop()
    front = await gateway(upstream)
    answer = await front.chat(USER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_replica")
    assert int(answer.headers["retry-after"]) > 0
    for path in ("/ready", "/v1/models"):
        assert (await front.http.get(path)).status_code == 503
    assert (await front.http.get("/health")).status_code == 200


async def test_models_are_merged_and_requests_go_where_their_model_is(engine, gateway):
    one, other = await engine(models=("m", "both")), await engine(models=("n", "both"))
    front = await gateway(one, other)
    models = (await front.http.get("/v1/models")).json()
    assert sorted(entry["id"] for entry in models["data"]) == ["both", "m", "n"]
    assert (await front.http.get("/v1/models/n")).json()["id"] == "n"
    assert (await front.http.get("/v1/models/absent")).json()["error"]["code"] == "model_not_found"
    for _ in range(5):
        await front.chat(USER, model="n")
    assert (len(one.seen), len(other.seen)) == (0, 5)


@pytest.mark.parametrize("whole", [True, False])
async def test_upstream_dies_in_mid_stream(engine, gateway, whole):
    upstream = await engine()
    first = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    sent = first if whole else first + b'data: {"cho'

    async def behave(request):
        await request.sse_head(upstream.headers)
        await request.sse_piece(sent)
        request.cut()

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.chat(USER, stream=True)
    assert answer.content.startswith(sent)
    *_, last, end = answer.content.split(b"\n\n")
    assert end == b""
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_died"
    assert (await front.replica(upstream.url))["in_flight"] == 0


async def test_upstream_dies_in_mid_json(engine, gateway, eventually):
    """An announced length can't be kept: the client must see a broken answer, not a short one."""
    upstream = await engine()

    async def behave(request):
        request.writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"cho')
        await request.writer.drain()
        request.cut()

    upstream.behave = behave
    front = await gateway(upstream)
    reader, writer = await front.send_raw(GOOD)
    got = await reader.read(-1)
    writer.close()
    assert b"content-length: 100" in got
    assert got.endswith((b'{"cho', b"\r\n\r\n"))
    assert (await front.replica(upstream.url))["in_flight"] == 0


async def test_silent_upstream_times_out(engine, gateway):
    upstream = await engine()
    upstream.behave = upstream.hang
    front = await gateway(upstream, read_timeout_s=0.2)
    answer = await front.chat(USER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    assert (await front.replica(upstream.url))["in_flight"] == 0
