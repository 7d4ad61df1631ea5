"""A scripted upstream: a real HTTP server that replays a model's turns as chat-completion streams."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console

from agents.options import Options
from agents.report import Report
from agents.run import solve
from agents.session import Session, folder_of
from agents.view import Json
from tests.agents.prefixes import breaks

PROMPT_TOKENS = 100


@dataclass
class Reply:
    """One answer of the upstream: deltas, then an end. `drop` closes the stream in the middle."""

    deltas: list[dict[str, Any]] = field(default_factory=list)
    finish: str = "stop"
    status: int = 200
    error: dict[str, Any] | None = None
    drop: bool = False
    gate: threading.Event | None = None
    """Hold the stream open after the first delta until this is set."""


def say(text: str, finish: str = "stop") -> Reply:
    return Reply([{"content": piece} for piece in (text[:3], text[3:])], finish)


def raw_call(name: str, arguments: str, finish: str = "tool_calls", identity: str = "c") -> Reply:
    head = {"index": 0, "id": identity, "type": "function", "function": {"name": name, "arguments": ""}}
    half = len(arguments) // 2
    pieces = [{"index": 0, "function": {"arguments": part}} for part in (arguments[:half], arguments[half:])]
    return Reply([{"tool_calls": [part]} for part in (head, *pieces)], finish)


def use(name: str, **arguments: Any) -> Reply:
    # The odd spacing shows that arguments are sent back as they came, not as json.dumps would write them.
    return raw_call(name, json.dumps(arguments, separators=(" ,", " : ")))


def refuse(status: int, message: str = "scripted", code: str | None = None) -> Reply:
    return Reply(status=status, error={"error": {"message": message, "type": "x", "param": None, "code": code}})


def deltas(*given: Any) -> Reply:
    return Reply(list(given))


Script = Callable[[dict[str, Any], dict[str, str]], Reply]


class Upstream:
    """`turns` are replayed in order; a function `script(body, headers)` may answer instead."""

    say, use, raw_call, refuse = staticmethod(say), staticmethod(use), staticmethod(raw_call), staticmethod(refuse)
    deltas = staticmethod(deltas)

    def __init__(self) -> None:
        self.turns: list[Reply] = []
        self.script: Script | None = None
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.sessions: list[str] = []
        self.asked = threading.Event()
        self.closed = threading.Event()
        """Set when a client went away from a stream that was held open."""
        self._lock = threading.Lock()
        upstream = self

        class Handler(_Handler):
            owner = upstream

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def extended(self) -> bool:
        """Each request's messages begin with the messages of the one before."""
        seen = [body["messages"] for body in self.bodies]
        return all(later[: len(sooner)] == sooner for sooner, later in pairwise(seen))

    def answer(self, raw: bytes, headers: dict[str, str]) -> Reply:
        body = json.loads(raw)
        with self._lock:
            self.asked.set()
            self.raw.append(raw)
            self.bodies.append(body)
            self.sessions.append(headers.get("x-sapwood-session", ""))
            turn = self.turns.pop(0) if self.turns else refuse(400, "the script has ended")
        return self.script(body, headers) if self.script else turn


class _Handler(BaseHTTPRequestHandler):
    owner: Upstream

    def log_message(self, *arguments: Any) -> None: ...

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self._json(200 if found else 404, {"data": [{"id": "scripted"}]} if found else {"error": "no"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        reply = self.owner.answer(raw, {name.lower(): value for name, value in self.headers.items()})
        if reply.status != 200:
            return self._json(reply.status, reply.error or {})
        try:
            self._stream(reply, raw)
        except (BrokenPipeError, ConnectionResetError):
            self.owner.closed.set()
        return None

    def _json(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply, raw: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for delta in reply.deltas:
            self._chunk(choices=[{"index": 0, "delta": delta, "finish_reason": None}])
            while reply.gate and not reply.gate.wait(0.02):
                self.wfile.write(b": keep-alive\n\n")  # fails once the client has gone
                self.wfile.flush()
        if reply.drop:
            return
        self._chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reply.finish}])
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 7, "total_tokens": PROMPT_TOKENS + 7}
        self._chunk(choices=[], usage=usage | {"prompt_tokens_details": {"cached_tokens": 90}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunk(self, **fields: Any) -> None:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted", **fields}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


@pytest.fixture(autouse=True, scope="session")
def _bare_pytest(bare_pytest):
    """A few tests of the command line run `sapwood` on its own, with all plugins."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Every run on it is held to its prefixes."""
    server = Upstream()
    yield server
    server.stop()
    assert breaks(zip(server.sessions, server.raw, strict=True)) == []


class Run:
    """Runs the agent in this process, without the command line; the last report and session are kept."""

    def __init__(self, repo: Path, url: str) -> None:
        self.repo, self.url = repo, url

    def __call__(self, prompt: str | None = "repair it", **options: Any) -> Report:
        shown = Json(Console(file=io.StringIO()))
        given = {"profile": "full", **options}
        return anyio.run(solve, Options(repo=self.repo, base_url=self.url, prompt=prompt, **given), shown)

    def resume(self, session: str, **options: Any) -> Report:
        return self(None, resume=session, **options)

    def session(self, identity: str) -> Session:
        return Session.load(folder_of(self.repo), identity)


@pytest.fixture
def run(repo: Path, upstream: Upstream) -> Run:
    return Run(repo, upstream.url)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A tiny repository with one wrong function and a test that says so."""
    root = tmp_path / "tiny"
    root.mkdir()
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a + a\n")
    (root / "test_calc.py").write_text(
        "from calc import add, twice\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
        "def test_twice():\n    assert twice(2) == 4\n"
    )
    return root
