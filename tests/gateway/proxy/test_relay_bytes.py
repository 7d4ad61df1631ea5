"""What passes through passes unchanged."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.headers import to_client, to_upstream

pytestmark = pytest.mark.anyio

USER = [{"role": "user", "content": "hi"}]
STREAM = (
    'data: {"choices":[{"delta":{"content":"größe 木"}}]}\n\n'
    ": a comment\r\n\r\n"
    'data:{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,'
    '"prompt_tokens_details":{"cached_tokens":0}}}\n\ndata: [DONE]\n\n'
).encode()


async def read_all(reader):
    """Status line, headers and the de-chunked pieces of one answer on a raw socket."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    pieces = []
    while size := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    return head, pieces


async def test_a_stream_cut_anywhere_passes_byte_for_byte(engine, gateway):
    upstream = await engine()
    middle = STREAM.index("ö".encode()) + 1
    usage = STREAM.index(b"cached") + 3
    pieces = [STREAM[:middle], STREAM[middle:usage], STREAM[usage : usage + 7], STREAM[usage + 7 :]]

    async def behave(request):
        await request.sse_head(upstream.headers)
        for piece in pieces:
            await request.sse_piece(piece)
        await request.sse_end()

    upstream.behave = behave
    front = await gateway(upstream)
    body = json.dumps({"model": "m", "messages": USER, "stream": True}).encode()
    reader, writer = await front.send_raw(body)
    head, got = await read_all(reader)
    writer.close()
    assert b"".join(got) == STREAM
    assert got[0] == pieces[0], "the first piece did not wait for the rest of its character"
    assert "text/event-stream" in head
    assert f"x-sapwood-replica: {upstream.url}" in head
    assert "x-sapwood-epoch: boot-1" in head
    assert await front.metric("prompt_tokens_total") == 9
    assert await front.metric("cached_tokens_total", replica=upstream.url) == 0


async def test_the_request_passes_byte_for_byte(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    body = b' {"messages" :[{"content":"\\u00e9\\/","role":"user"}],\n"model":"m","x":1e2, "x":1.0}  '
    headers = {
        "authorization": "Bearer key",
        "x-sapwood-tenant": "forged",
        "x-sapwood-retain": "9",
        "x-sapwood-session": "mine",
        "x-custom": "kept",
        "connection": "keep-alive, x-hop",
        "x-hop": "dropped",
    }
    await front.http.post("/v1/chat/completions?a=b%20c", content=body, headers=headers)
    seen = upstream.seen[0]
    assert seen.body == body
    assert seen.path == "/v1/chat/completions?a=b%20c"
    assert seen.headers["authorization"] == "Bearer key"
    assert seen.headers["x-custom"] == "kept"
    assert seen.headers["accept-encoding"] == "identity"
    assert "x-hop" not in seen.headers
    assert "x-sapwood-retain" not in seen.headers
    assert seen.headers["x-sapwood-tenant"] not in ("forged", "key")
    assert seen.headers["x-sapwood-session"] != "mine"


async def test_tenants_and_sessions_are_told_to_the_engine(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    for key, session in [("a", "s"), ("b", "s"), ("a", "s"), ("a", "t")]:
        await front.chat(USER, {"authorization": f"Bearer {key}", "x-session-id": session})
    names = [(r.headers["x-sapwood-tenant"], r.headers["x-sapwood-session"]) for r in upstream.seen]
    assert names[0] == names[2]
    assert names[0][0] == names[3][0] != names[1][0]
    assert len({session for _, session in names}) == 3


async def test_without_a_session_key_the_lineage_is_the_conversation(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    reply = {"role": "assistant", "content": "ok"}
    await front.chat(USER)
    await front.chat([*USER, reply, {"role": "user", "content": "more"}])
    await front.chat([{"role": "user", "content": "another"}])
    first, second, other = (r.headers["x-sapwood-session"] for r in upstream.seen)
    assert first == second != other


async def test_an_upstreams_own_error_passes_unchanged(engine, gateway):
    upstream = await engine()
    error = b'{"error": {"message": "too long", "code":"context_length_exceeded"} }'

    async def behave(request):
        await request.raw(error, 400, [("content-type", "application/json"), ("x-request-id", "7")])

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.chat(USER)
    assert (answer.status_code, answer.content) == (400, error)
    assert answer.headers["x-request-id"] == "7"
    assert await front.metric("requests_total", status="400") == 1


@pytest.mark.parametrize("status", [500, 503])
async def test_the_last_replicas_error_passes_unchanged(engine, gateway, status):
    upstream = await engine()

    async def behave(request):
        await request.raw(b"busy", status, [("retry-after", "3")])

    upstream.behave = behave
    front = await gateway(upstream)
    answer = await front.chat(USER)
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (status, b"busy", "3")


async def test_completions_and_paths_without_v1(engine, gateway):
    upstream = await engine()
    front = await gateway(upstream)
    for path in ("/v1/completions", "/completions", "/chat/completions"):
        assert (await front.http.post(path, json={"model": "m", "prompt": "x"})).status_code == 200
    assert [r.path for r in upstream.seen] == ["/v1/completions"] * 2 + ["/v1/chat/completions"]


async def test_many_at_once_do_not_mix(engine, gateway):
    upstream = await engine()

    async def behave(request):
        await request.raw(request.body)

    upstream.behave = behave
    front = await gateway(upstream)
    answers = await asyncio.gather(*(front.chat([{"role": "user", "content": str(n) * 200}]) for n in range(60)))
    assert all(str(n) * 200 in answer.text for n, answer in enumerate(answers))
    assert (await front.replica(upstream.url))["in_flight"] == 0
    assert await front.metric("client_disconnects_total") == 0


names = st.sampled_from([b"x-a", b"connection", b"te", b"x-sapwood-x", b"host", b"x-sapwood-epoch", b"server"])


@given(st.lists(st.tuples(names, st.sampled_from([b"1", b"x-a", b"close, te"]))))
def test_header_rules(headers):
    up = to_upstream(headers, tenant="t", session="s")
    down = to_client(headers, replica="r")
    assert {k for k, _ in up} <= {b"x-a", b"server", b"accept-encoding", b"x-sapwood-tenant", b"x-sapwood-session"}
    assert {k for k, _ in down} <= {b"x-a", b"host", b"x-sapwood-epoch", b"x-sapwood-replica"}
    hidden = (b"connection", b"x-a") in headers
    assert [h for h in up if h[0] == b"x-a"] == ([] if hidden else [h for h in headers if h[0] == b"x-a"])
