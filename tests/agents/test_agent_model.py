"""The model client against a real HTTP server: what is tried again, what is given up, what is said."""

from __future__ import annotations

import socket
import threading

import anyio
import httpx
import pytest

from agents import model as module
from agents.model import ChatModel, Dropped, Refused, Unreachable

REQUEST = {"model": "scripted", "messages": [{"role": "user", "content": "u"}]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "RETRY_DELAYS", (0.0, 0.0))


def ask(url, key=None):
    async def main():
        async with ChatModel(url, key) as model:
            return await model.complete(REQUEST, "s.b1", 1)

    return anyio.run(main)


def test_a_turn_with_its_cost(upstream):
    upstream.turns = [upstream.use("f", x=1)]
    turn = ask(upstream.url)
    assert turn.calls[0].arguments == '{"x" : 1}'
    assert (turn.finish_reason, turn.prompt, turn.cached, turn.completion) == ("tool_calls", 100, 90, 7)
    assert 0 < turn.ttft <= turn.seconds
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    assert upstream.sessions == ["s.b1"]


def test_stop_with_calls_is_a_tool_call(upstream):
    upstream.turns = [upstream.raw_call("f", "{}", finish="stop")]
    assert ask(upstream.url).finish_reason == "tool_calls"


def test_a_passing_500_and_429_are_not_noticed(upstream):
    upstream.turns = [upstream.refuse(500), upstream.refuse(429), upstream.say("hello")]
    assert ask(upstream.url).message["content"] == "hello"


def test_a_lasting_500_is_unreachable_after_three_tries(upstream):
    upstream.turns = [upstream.refuse(503, "no replica")] * 5
    with pytest.raises(Unreachable, match="HTTP 503: no replica"):
        ask(upstream.url)
    assert len(upstream.bodies) == 3


def test_a_refusal_is_not_tried_again(upstream):
    upstream.turns = [upstream.refuse(400, "too long", "context_length_exceeded")] * 2
    with pytest.raises(Refused, match="too long") as caught:
        ask(upstream.url)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    assert len(upstream.bodies) == 1


def test_a_dropped_stream_keeps_what_had_come(upstream):
    reply = upstream.say("half an answer")
    reply.drop = True
    upstream.turns = [reply]
    with pytest.raises(Dropped) as caught:
        ask(upstream.url)
    assert caught.value.partial == "half an answer"
    assert len(upstream.bodies) == 1


def test_nobody_there():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else can take it
        with pytest.raises(Unreachable, match="no answer from"):
            ask(f"http://127.0.0.1:{reserved.getsockname()[1]}/v1")


@pytest.mark.parametrize("url", ["http://", "nonsense"])
def test_a_bad_url_is_unreachable(url):
    with pytest.raises(Unreachable):
        ask(url)


def test_cancelling_closes_the_stream(upstream):
    gate = threading.Event()
    reply = upstream.say("never finished")
    reply.gate = gate
    upstream.turns = [reply]

    async def main():
        async with ChatModel(upstream.url) as model, anyio.create_task_group() as group:
            group.start_soon(model.complete, REQUEST, "s", 1)
            assert await anyio.to_thread.run_sync(upstream.asked.wait, 5)
            group.cancel_scope.cancel()

    anyio.run(main)
    try:
        assert upstream.closed.wait(5)
    finally:
        gate.set()


def test_the_first_model_and_a_size_nobody_tells(upstream):
    async def main():
        async with ChatModel(upstream.url) as model:
            return (await model.models())[0].name, await model.parameters()

    assert anyio.run(main) == ("scripted", None)


@pytest.mark.parametrize(
    "delta",
    [[1], "text", {"tool_calls": "abc"}, {"tool_calls": [5]}, {"tool_calls": [{"function": "ls"}]},
     {"tool_calls": [{"index": [1], "function": {"name": "f"}}]}],
    ids=str,
)  # fmt: skip
def test_chunks_of_another_shape_are_a_dropped_turn(upstream, delta):
    upstream.turns = [upstream.deltas(delta)]
    with pytest.raises(Dropped, match="not chat completions"):
        ask(upstream.url)


def test_a_chunk_nested_without_end_is_a_dropped_turn():
    def answer(request):
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=f"data: {'[' * 200_000}\n\n")

    with pytest.raises(Dropped, match="not chat completions"):
        ask_through(answer)


def test_an_answer_that_is_not_what_its_header_says_is_no_answer():
    def answer(request):
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Plain())

    with pytest.raises(Dropped):
        ask_through(answer)


class Plain(httpx.AsyncByteStream):
    async def __aiter__(self):
        yield b"plain"


def ask_through(answer):
    async def main():
        async with ChatModel("http://model/v1", transport=httpx.MockTransport(answer)) as model:
            return await model.complete(REQUEST, "s", 1)

    return anyio.run(main)
