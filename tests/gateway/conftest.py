"""A stub engine on a raw socket, a gateway in the test's own event loop, and a real Valkey.

Everything of one test runs in one loop: what a test waits for is a condition, never a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time

import httpx
import pytest
import uvicorn

from gateway.affinity.embedded import embedded_redis
from gateway.app import create_app, refusal
from gateway.config import GatewayConfig
from gateway.guard.http import guarded_http
from gateway.serve import listen

DEADLINE_S = 8.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def _eventually(check, what="the condition"):
    """Poll until `check()` (sync or async) is truthy; its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = check()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {DEADLINE_S} s")


@pytest.fixture
def eventually():
    return _eventually


@pytest.fixture(scope="session")
def _valkey():
    with embedded_redis() as url:
        yield url


@pytest.fixture
def redis_url(_valkey):
    """A URL of the session's Valkey, emptied."""
    import redis

    with redis.Redis.from_url(_valkey) as client:
        client.flushall()
    return _valkey


class StubRequest:
    def __init__(self, method, path, headers, body, reader, writer):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.reader, self.writer = reader, writer

    async def json(self, value, status=200, headers=()):
        await self.raw(json.dumps(value).encode(), status, [("content-type", "application/json"), *headers])

    async def raw(self, body, status=200, headers=()):
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *(f"{k}: {v}" for k, v in headers)]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def sse_head(self, headers=()):
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
        lines += [f"{k}: {v}" for k, v in headers]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        await self.writer.drain()

    async def sse_piece(self, data):
        """One piece as its own HTTP chunk and TCP write; a turn of the loop lets it leave on its own."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()
        await asyncio.sleep(0.005)

    async def sse_end(self):
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def wait_closed(self):
        """Until the other side closes the connection."""
        while await self.reader.read(1024):
            pass

    def cut(self):
        self.writer.transport.abort()


class StubEngine:
    """Answers health, info and models; POSTs go to `behave`, by default a small JSON answer with usage."""

    def __init__(self, epoch="boot-1", models=("m",), offers=()):
        self.epoch, self.models, self.offers = epoch, models, list(offers)
        self.seen, self.waiting, self.left_by_client = [], 0, 0
        self.port, self._server, self._writers = 0, None, set()
        self.healthy, self.cached = True, 0
        self.behave = self.answer

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self):
        return [("x-sapwood-epoch", self.epoch)] if self.epoch else []

    async def start(self):
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        """Like a killed process: the port refuses, open connections are reset."""
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def answer(self, request):
        details = {"cached_tokens": self.cached}
        usage = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": details}
        await request.json({"object": "chat.completion", "usage": usage}, headers=self.headers)

    async def hang(self, request):
        """Takes the request and says nothing until the connection is closed."""
        self.waiting += 1
        await request.wait_closed()
        self.waiting -= 1
        self.left_by_client += 1

    async def _connection(self, reader, writer):
        self._writers.add(writer)
        try:
            while request := await self._read(reader, writer):
                await self._answer(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _read(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            method, path, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            return StubRequest(method, path, headers, body, reader, writer)
        return None

    async def _answer(self, request):
        if request.path == "/health":
            await request.json({}, 200 if self.healthy else 503)
        elif request.path == "/info" and self.epoch:
            await request.json({"epoch": self.epoch, "offers": self.offers})
        elif request.path == "/v1/models":
            await request.json({"object": "list", "data": [{"id": m, "object": "model"} for m in self.models]})
        elif request.method == "POST":
            self.seen.append(request)
            await self.behave(request)
        else:
            await request.json({"error": "no such path"}, 404)


@pytest.fixture
async def engine(anyio_backend):
    """A factory of started stub engines; all are stopped afterwards."""
    started = []

    async def make(**options):
        started.append(await StubEngine(**options).start())
        return started[-1]

    yield make
    for each in started:
        await each.stop()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):
        yield


class RunningGateway:
    def __init__(self, config):
        self._listener = listen("127.0.0.1", 0)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        options = {
            "http": guarded_http(config.client_timeout_s, refusal),
            "log_config": None,
            "access_log": False,
            "timeout_graceful_shutdown": 1,
        }
        self._server = _Server(uvicorn.Config(create_app(config), server_header=False, **options))
        self.http = httpx.AsyncClient(base_url=self.url, timeout=DEADLINE_S, trust_env=False)

    async def start(self):
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        await _eventually(lambda: self._server.started, "the gateway's start")
        return self

    async def stop(self):
        await self.http.aclose()
        self._server.should_exit = True
        await self._task
        self._listener.close()

    async def chat(self, messages, headers=None, **fields):
        body = {"model": "m", "messages": messages, **fields}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def info(self):
        return (await self.http.get("/info")).json()

    async def replica(self, url):
        return next(r for r in (await self.info())["replicas"] if r["url"] == url)

    async def metric(self, name, **labels):
        """The sum of a metric's samples that carry the labels; it must be one that there is."""
        total, text = 0.0, (await self.http.get("/metrics")).text
        families = re.findall(r"# TYPE sapwood_gateway_(\w+)", text)
        assert any(name.startswith(family) for family in families), f"no metric is named {name}"
        for line in text.splitlines():
            if re.match(rf"sapwood_gateway_{name}[{{ ]", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    async def send_raw(self, body, path="/v1/chat/completions", length=None):
        """A POST on a socket of its own: reader, writer. `length` announces another length than the body's."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body)
        await writer.drain()
        return reader, writer


@pytest.fixture
async def gateway(anyio_backend):
    """A factory of running gateways over given stub engines."""
    running = []

    async def make(*engines, **settings):
        settings = {"probe_interval_s": 0.05, "lookup_budget_s": 0.5, **settings}
        config = GatewayConfig(upstreams=tuple(e.url for e in engines), **settings)
        running.append(await RunningGateway(config).start())
        return running[-1]

    yield make
    for each in running:
        await each.stop()
