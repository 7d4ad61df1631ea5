"""Servers that were written with the MCP library, as child processes and behind a URL."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import anyio
import pytest

from tests.agents.servers.conftest import HERE, at, library, names


class HttpServer:
    def __init__(self) -> None:
        self.port = 0
        self.process: subprocess.Popen | None = None

    def start(self) -> str:
        command = [sys.executable, str(HERE / "library_server.py"), "http", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        url = self.process.stdout.readline().strip()
        self.port = urlsplit(url).port
        return url

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def http_server():
    server = HttpServer()
    yield server
    server.kill()


@pytest.fixture(params=["stdio", "http"])
def config(request):
    return library("s") if request.param == "stdio" else at(request.getfixturevalue("http_server").start(), "s")


def test_tools_progress_cancellation_and_news(run, told, config, tmp_path):
    mark = tmp_path / "mark"

    async def test(servers):
        before = list(servers.specs())
        assert names(servers) == [f"s__{name}" for name in ("die", "grow", "pid", "refuse", "wait", "where")]
        where = before[-1]["function"]
        assert where["description"] == "Says where a point is."
        assert where["parameters"]["properties"]["point"]["properties"]["x"]["type"] == "integer"
        assert "$" not in str(before)
        assert (await servers.call("s__where", {"point": {"x": 3}})).text == "at 3"
        refused = await servers.call("s__refuse", {})
        assert (refused.text, refused.is_error, refused.fault) == ("Error executing tool refuse: not today", True, None)

        async with anyio.create_task_group() as group:
            group.start_soon(servers.call, "s__wait", {"mark": str(mark)})
            await told.until(lambda: told.progress)
            group.cancel_scope.cancel()
        assert told.progress == [("s__wait", "1 of 2: begun")]
        with anyio.fail_after(10):
            while not mark.exists():  # noqa: ASYNC110 (another process writes it)
                await anyio.sleep(0.01)

        await servers.call("s__grow", {})
        await told.until(lambda: told.news)
        new, gone = told.news[0].splitlines()[1:]
        assert new.startswith('- new: s__grown: Is new. Its arguments: {"type":"object","properties":{"n":')
        assert gone == "- gone: s__refuse"
        assert servers.specs() == before
        assert (await servers.call("s__grown", {"n": 2})).text == "grown 2"
        assert "has no tool refuse any more" in (await servers.call("s__refuse", {})).text
        assert len(told.news) == 1

    run(test, config)


def test_an_http_server_that_dies_in_a_call_and_comes_back(run, told, http_server, tmp_path):
    async def test(servers):
        before = str(servers.specs())
        results = []

        async def wait():
            results.append(await servers.call("h__wait", {"mark": str(tmp_path / "mark")}))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await told.until(lambda: told.progress)
                http_server.kill()
        assert "went away" in results[0].text or "failed" in results[0].text
        assert results[0].is_error
        down = await servers.call("h__pid", {})
        assert down.is_error
        http_server.start()
        assert not (await servers.call("h__pid", {})).is_error
        assert str(servers.specs()) == before
        assert told.news == []

    run(test, at(http_server.start()))


def test_nobody_there(run, told, http_server):
    url = http_server.start()
    http_server.kill()

    async def test(servers):
        assert servers.specs() == []

    run(test, at(url))
    assert told.notes[0].startswith(f"server h cannot be started: no connection to {url}: ")
