"""What an operator does to a running gateway: draining, the breaker's work, a new configuration by SIGHUP."""

from __future__ import annotations

import json
import signal
import socketserver
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler

import httpx
import pytest

from tests.gateway.test_gateway_cli import GATEWAY, running

ASK = [{"role": "user", "content": "hi"}]


def follow(number):
    return [*ASK, {"role": "assistant", "content": "x"}, {"role": "user", "content": f"more {number}"}]


@pytest.mark.anyio
async def test_a_drained_replica_keeps_its_conversations_only(engine, gateway):
    one, other = await engine(), await engine()
    front = await gateway(one, other)
    home = (await front.chat(ASK)).headers["x-sapwood-replica"]
    name = home.removeprefix("http://")
    told = await front.http.post(f"/admin/replicas/{name}/drain")
    assert told.json() == {"url": home, "duty": "draining", "in_flight": 0}
    assert (await front.chat(follow(1))).headers["x-sapwood-replica"] == home
    for number in range(6):
        fresh = [{"role": "user", "content": f"another {number}"}]
        assert (await front.chat(fresh)).headers["x-sapwood-replica"] != home
    await front.http.post(f"/admin/replicas/{name}/drain", params={"grace_s": "0"})
    assert (await front.chat(follow(2))).headers["x-sapwood-replica"] != home
    assert (await front.replica(home))["duty"] == "draining"
    assert (await front.http.post(f"/admin/replicas/{name}/undrain")).json()["duty"] == "serving"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("nowhere:1/drain", {}, 404, "no_such_replica"),
        ("REPLICA/drain?grace_s=-1", {}, 400, "invalid_parameter"),
        ("REPLICA/drain", {"origin": "http://page"}, 401, "invalid_admin_key"),
        ("REPLICA/drain", {"origin": "http://page", "authorization": "Bearer wrong"}, 401, "invalid_admin_key"),
        ("REPLICA/drain", {"x-forwarded-for": "1.2.3.4", "authorization": "Bearer right"}, 200, None),
    ],
)
async def test_who_may_drain_what(engine, gateway, path, headers, status, code):
    only = await engine()
    front = await gateway(only, admin_key="right")
    path = path.replace("REPLICA", only.url.removeprefix("http://"))
    answer = await front.http.post(f"/admin/replicas/{path}", headers=headers)
    assert answer.status_code == status
    assert answer.json().get("error", {}).get("code") == code


@pytest.mark.anyio
async def test_a_replica_that_fails_requests_is_left_alone_though_it_is_healthy(engine, gateway):
    bad, good = await engine(), await engine()

    async def fail(request):
        await request.json({"error": "out of memory"}, 500)

    bad.behave = fail
    front = await gateway(bad, good)
    statuses = [(await front.chat([{"role": "user", "content": f"{n}"}])).status_code for n in range(60)]
    assert statuses[-20:] == [200] * 20
    assert 0 < len(bad.seen) < 30
    assert (await front.replica(bad.url))["state"] == "healthy"


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._answer({"data": [], "epoch": "e"})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self._answer({"usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    def _answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def upstreams():
    servers = [socketserver.ThreadingTCPServer(("127.0.0.1", 0), Upstream) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_address[1]}" for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


def test_sighup_takes_over_a_good_file_and_keeps_the_old_one_over_a_bad(upstreams, tmp_path):
    first, second = upstreams
    file = tmp_path / "gateway.toml"
    file.write_text(f'upstreams = ["{first}"]\n')
    with running(*GATEWAY, "--config", str(file), "--port", "0") as process:
        base = process.stdout.readline().split()[-1]
        assert [each["url"] for each in info(base)["replicas"]] == [first]
        file.write_text(f'upstreams = ["{second}"]\n')
        process.send_signal(signal.SIGHUP)
        while [each["url"] for each in info(base)["replicas"]] != [second]:
            pass
        answer = httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": ASK})
        assert answer.headers["x-sapwood-replica"] == second
        file.write_text("upstreams = 3\n")
        process.send_signal(signal.SIGHUP)
        said = ""
        while "the configuration stays as it was" not in said:
            said = process.stderr.readline()
        assert f"{file}: upstreams: must be a list, not 3" in said
        assert [each["url"] for each in info(base)["replicas"]] == [second]


def info(base):
    with urllib.request.urlopen(f"{base}/info", timeout=10) as answer:
        return json.load(answer)
