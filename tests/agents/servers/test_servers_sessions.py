"""HTTP servers of the handshake of old, which give out sessions and may forget them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest

from tests.agents.servers.conftest import at, names


class Remembers(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"
        self.sessions: set[str] = set()
        self.begun = 0
        self.ran: list[str] = []
        self.authorizations: set[str | None] = set()
        self.always = 0
        """A status that is the answer to everything."""
        self.forgets = False
        self.hanging, self.released = threading.Event(), threading.Event()


class Answers(BaseHTTPRequestHandler):
    server: Remembers

    def log_message(self, *arguments: object) -> None: ...

    def do_GET(self) -> None:
        self.answer(405)

    def do_DELETE(self) -> None:
        self.server.sessions.discard(self.headers["mcp-session-id"])
        self.answer(204)

    def do_POST(self) -> None:
        owner = self.server
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        owner.authorizations.add(self.headers["authorization"])
        session = self.headers["mcp-session-id"]
        if owner.always:
            self.answer(owner.always)
        elif message["method"] == "initialize":
            owner.begun += 1
            session = f"session {owner.begun}"
            owner.sessions.add(session)
            about = {"serverInfo": {"name": "old", "version": "1"}, "capabilities": {"tools": {}}}
            self.answer(200, message["id"], {"protocolVersion": "2025-06-18", **about}, session)
        elif session not in owner.sessions:
            self.answer(404)
        elif message["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("hang", "run")]
            self.answer(200, message["id"], {"tools": tools})
            if owner.forgets:
                owner.sessions.clear()
        elif message["method"] == "notifications/cancelled":
            self.close_connection = True  # without an answer
        elif message["method"] == "tools/call" and message["params"]["name"] == "hang":
            owner.hanging.set()
            owner.released.wait()
        elif message["method"] == "tools/call":
            owner.ran.append(session)
            self.answer(200, message["id"], {"content": [{"type": "text", "text": session}]})
        else:
            self.answer(202)

    def answer(self, status: int, number: int | None = None, result: object = None, session: str = "") -> None:
        body = b"" if result is None else json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.send_response(status)
        if session:
            self.send_header("mcp-session-id", session)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def old():
    server = Remembers()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_forgotten_session_is_begun_anew_and_the_call_runs_once(run, told, old):
    async def test(servers):
        assert (await servers.call("h__run", {})).text == "session 1"
        old.sessions.clear()
        assert (await servers.call("h__run", {})).text == "session 2"

    run(test, at(old.url))
    assert old.ran == ["session 1", "session 2"]
    assert old.sessions == set()
    assert "server h is gone: it does not know our session any more. It is started again." in told.notes


def test_a_server_that_always_forgets_is_not_asked_for_ever(run, old):
    old.forgets = True

    async def test(servers):
        assert (await servers.call("h__run", {})).text == "The server h forgets its session each time. Nothing was run."

    run(test, at(old.url))
    assert old.begun <= 4


def test_a_connection_that_breaks_where_nobody_waits_for_an_answer_is_made_anew(run, told, old):
    async def test(servers):
        async with anyio.create_task_group() as group:
            group.start_soon(servers.call, "h__hang", {})
            await anyio.to_thread.run_sync(old.hanging.wait)
            group.cancel_scope.cancel()
        await told.until(lambda: told.notes[-1] == "server h is up")
        assert (await servers.call("h__run", {})).text == "session 2"

    run(test, at(old.url))


def test_headers_are_sent_and_a_refusal_names_the_status(run, told, old):
    async def test(servers):
        assert names(servers) == ["h__hang", "h__run"]
        old.always = 503
        assert (await servers.call("h__run", {})).text.endswith("(HTTP status 503)")

    run(test, at(f"{old.url}?key=s3cret", Authorization="Bearer s3cret"))
    assert old.authorizations == {"Bearer s3cret"}
    old.always = 401

    async def refused(servers):
        assert names(servers) == []

    run(refused, at(f"{old.url}?key=s3cret"))
    failed = f"server h cannot be started: {old.url} answers with HTTP status 401"
    assert told.notes[-1] == f"{failed}. The session goes on without its tools."
