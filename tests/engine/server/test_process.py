"""The edges of the server's life: signals that end it, clients that end in mid-sentence."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import uvicorn

from engine.server.app import create_app
from engine.server.routes import chat_completions
from engine.server.run import _Server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_not_the_process(number, monkeypatch):
    async def main():
        server = _Server(uvicorn.Config(app=None), "")
        stopped = asyncio.Event()
        monkeypatch.setattr(server, "handle_exit", lambda *_: stopped.set())
        with server.capture_signals():
            os.kill(os.getpid(), number)
            await asyncio.wait_for(stopped.wait(), 10)

    asyncio.run(main())


def asgi_scope(path):
    return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}


def test_a_body_that_breaks_off_is_no_fault_of_the_server(service, caplog):
    messages = iter([{"type": "http.request", "body": b'{"mess', "more_body": True}, {"type": "http.disconnect"}])
    sent = []

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message)

    asyncio.run(create_app(service)(asgi_scope("/v1/chat/completions"), receive, send))
    assert sent[0]["status"] == 499
    assert not caplog.records


def test_what_is_unfinished_at_the_end_is_told_so(http, service, monkeypatch):
    async def cut_off(_, work):
        work.close()
        raise asyncio.CancelledError

    monkeypatch.setattr(f"{chat_completions.__module__}.unless_gone", cut_off)
    reply = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "shutting_down"
