"""Upstreams that break off, lie about lengths, or talk garbage: one clear end for the client, and all counters back."""

from __future__ import annotations

import json

import pytest

from tests.gateway.bad_input.shapes import (
    PATHS,
    STREAMING,
    VERBATIM,
    balanced,
    body_of,
    check_error,
    failures_in,
    read_answer,
)
from tests.gateway.bad_input.upstream import RawUpstream, Then

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
UNMEASURED = OK + b"content-type: text/event-stream\r\n\r\n"
JSON_HEAD = OK + b"content-type: application/json\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(path, text="Hi"):
    said = {"text": text} if "completions" in path and "chat" not in path else {"delta": {"content": text}}
    return b"data: " + json.dumps({"choices": [{"index": 0, "finish_reason": None, **said}]}).encode() + b"\n\n"


def streams(path):
    """Answers that begin as a stream and never come to its end."""
    one = event(path)
    return {
        "half an event, then the end": CHUNKED + chunk(one + one[:20]),
        "half an event, then a reset": CHUNKED + chunk(one + one[:20]),
        "half a line of chunk size": CHUNKED + chunk(one) + b"1",
        "half of invalid UTF-8": CHUNKED + chunk(one + b'data: {"choices":[{"delta":{"content":"\xc3'),
        "a chunk size that is none": CHUNKED + chunk(one) + b"zz\r\nhello\r\n",
        "a chunk that is longer than it says": CHUNKED + chunk(one) + b"3\r\nfar too long\r\n",
        "a negative chunk size": CHUNKED + chunk(one) + b"-5\r\nhello\r\n",
        "a length that is too long": OK + b"content-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n" + one,
    }


GARBLED = ("a chunk size that is none", "a chunk that is longer than it says", "a negative chunk size")
BEFORE_ANY = {
    "nothing": b"",
    "half a status line": b"HTTP/1.",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "no end of the head": OK + b"content-type: application/json\r\n",
    "a head without end": OK + b"x: " + b"y" * 400_000,
    "a negative length": JSON_HEAD + b"content-length: -1\r\n\r\n{}",
    "a length that is no number": JSON_HEAD + b"content-length: many\r\n\r\n{}",
    "two lengths": JSON_HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "chunked garbage": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\nGARBAGE\r\n",
}
WHOLE = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]}).encode()
CUT = {
    "a length that is too long": JSON_HEAD + b"content-length: 9999\r\n\r\n" + WHOLE,
    "chunks that end too early": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(WHOLE[:30]),
    "chunked garbage behind a chunk": JSON_HEAD
    + b"transfer-encoding: chunked\r\n\r\n"
    + chunk(WHOLE[:30])
    + b"oops\r\n",
}
NO_JSON = {
    "HTML": OK + b"content-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    "invalid UTF-8": JSON_HEAD + b"content-length: 4\r\n\r\n\xff\xfe\xfd\xfc",
    "an empty body": JSON_HEAD + b"content-length: 0\r\n\r\n",
    "a list": JSON_HEAD + b"content-length: 2\r\n\r\n[]",
    "half an object, whole by its length": JSON_HEAD + b"content-length: 8\r\n\r\n" + WHOLE[:8],
}


@pytest.fixture
async def raw(anyio_backend):
    upstream = await RawUpstream().start()
    yield upstream
    await upstream.stop()


@pytest.mark.parametrize("fault", streams("/"))
@pytest.mark.parametrize("path", STREAMING)
async def test_a_stream_that_breaks(raw, gateway, eventually, path, fault):
    """The client gets what came, then one event that says what happened, and the stream's end."""
    raw.answer = streams(path)[fault]
    raw.then = Then.RESET if "reset" in fault else Then.CLOSE
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path, stream=True))
    if answer.status_code == 200:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "Hi" in answer.text
        assert len(failures_in(path, answer.text)) == 1, answer.text
        assert await front.metric("errors_total", code="upstream_died") == 1
    else:  # garbage in the first bytes that were read
        assert fault in GARBLED
        assert answer.status_code == 503
        check_error(path, answer.content, 503)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("path", STREAMING)
async def test_an_error_in_mid_stream_is_told_once(raw, gateway, eventually, path):
    told = b'data: {"error": {"message": "CUDA out of memory", "type": "server_error", "code": 500}}\n\n'
    raw.answer = CHUNKED + chunk(event(path)) + chunk(told) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path, stream=True))
    assert len(failures_in(path, answer.text)) == 1, answer.text
    assert answer.text.count("CUDA out of memory") == 1
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("path", STREAMING)
async def test_garbage_between_good_events_does_no_harm(raw, gateway, eventually, path):
    junk = (
        b'data: {\n\ndata: 7\n\ndata: [1]\n\ndata: \xff\xfe\n\nevent: odd\n\n: note\n\nid\n\ndata: {"choices": 3}\n\n'
    )
    raw.answer = CHUNKED + chunk(event(path) + junk + event(path, "Ho")) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path, stream=True))
    assert answer.status_code == 200
    assert answer.content.index(b"Hi") < answer.content.index(b"Ho")
    if path in VERBATIM:
        assert junk in answer.content
    else:
        answer.content.decode()
        assert not failures_in(path, answer.text), answer.text
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("path", STREAMING)
async def test_a_stream_without_an_end_marker_ends_with_its_connection(raw, gateway, eventually, path):
    raw.answer = UNMEASURED + event(path)
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path, stream=True))
    assert "Hi" in answer.text
    assert not failures_in(path, answer.text)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("fault", BEFORE_ANY)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_no_answer_at_all(raw, gateway, eventually, path, stream, fault):
    raw.answer = BEFORE_ANY[fault]
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path, stream))
    assert answer.status_code in (502, 503), answer.text
    check_error(path, answer.content, answer.status_code)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("fault", CUT)
@pytest.mark.parametrize("path", PATHS)
async def test_a_plain_answer_that_is_cut(raw, gateway, eventually, path, fault):
    """Where its beginning is out already the client's connection is cut: half an answer must not be taken for one."""
    raw.answer = CUT[fault]
    front = await gateway(raw)
    reader, writer = await front.send_raw(body_of(path), path)
    status, headers, body = await read_answer(reader)
    writer.close()
    if path in VERBATIM and status == 200:
        length = headers.get("content-length")
        assert int(length) > len(body) if length else b'"Hi"}}]}' not in body
    else:
        assert status in (502, 503)
        check_error(path, body, status)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("fault", NO_JSON)
@pytest.mark.parametrize("path", [path for path in PATHS if path not in VERBATIM])
async def test_an_answer_that_is_no_object(raw, gateway, eventually, path, fault):
    raw.answer = NO_JSON[fault]
    front = await gateway(raw)
    answer = await front.http.post(path, content=body_of(path))
    assert answer.status_code == 502, answer.text
    check_error(path, answer.content, 502)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("path", PATHS)
async def test_bytes_behind_a_whole_answer_are_nobodys(raw, gateway, eventually, path):
    """A length that is too short: the answer ends there, and the connection is not used again."""
    body = WHOLE + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    raw.answer = JSON_HEAD + b"content-length: %d\r\n\r\n%s" % (len(WHOLE), body)
    raw.then = Then.HANG
    front = await gateway(raw)
    for n in (1, 2):
        answer = await front.http.post(path, content=body_of(path))
        assert answer.status_code == 200
        assert b"evil" not in answer.content
        await eventually(lambda n=n: raw.asked == raw.left == n, "the end of the upstream's connection")
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("head", [b"", OK + b"content-type: text/event-stream\r\n\r\n"], ids=["silent", "head only"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_a_silent_upstream_whose_client_leaves(raw, gateway, eventually, path, stream, head):
    raw.answer, raw.then = head, Then.HANG
    front = await gateway(raw)
    _, writer = await front.send_raw(body_of(path, stream), path)
    await eventually(lambda: raw.asked == 1)
    assert await front.metric("streams") == 1
    writer.close()
    await eventually(lambda: raw.left == 1, "the end of the upstream's connection")
    await eventually(lambda: balanced(front, raw))
    assert await front.metric("client_disconnects_total", route=path) == 1
    assert (await front.replica(raw.url))["state"] == "healthy"


@pytest.mark.parametrize("path", PATHS)
async def test_a_silent_upstream_in_the_end_is_one_error(raw, gateway, eventually, path):
    raw.then = Then.HANG
    front = await gateway(raw, read_timeout_s=0.2)
    answer = await front.http.post(path, content=body_of(path))
    assert answer.status_code == 504
    check_error(path, answer.content, 504)
    await eventually(lambda: balanced(front, raw))


@pytest.mark.parametrize("path", STREAMING)
async def test_silence_after_signs_of_life_is_told_in_the_stream(raw, gateway, eventually, path):
    raw.then = Then.HANG
    front = await gateway(raw, read_timeout_s=0.4, heartbeat_s=0.05)
    answer = await front.http.post(path, content=body_of(path, stream=True))
    assert answer.status_code == 200
    assert len(failures_in(path, answer.text)) == 1, answer.text
    await eventually(lambda: balanced(front, raw))
