"""`sapwood mcp` as a real process: stdio and streamable HTTP from start to end, and clear refusals."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from agents.cli.mcp import mcp

ENTRY = [sys.executable, "-c", "from agents.cli.mcp import mcp; mcp()"]


async def use(target: object) -> tuple[list[str], str]:
    async with Client(target) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        await client.call_tool("write_file", {"path": "made.txt", "content": "made\n"})
        result = await client.call_tool("run_command", {"command": "cat made.txt; echo noise >&2"})
        return names, result.content[0].text


def test_stdio(tmp_path: Path) -> None:
    arguments = [*ENTRY[1:], "--root", str(tmp_path), "--only", "run_command,write_file"]
    server = StdioServerParameters(command=ENTRY[0], args=arguments, cwd=str(Path(__file__).parents[2]))
    names, text = anyio.run(use, server)
    assert names == ["run_command", "write_file"]
    assert text == "made\nnoise\n[exit code 0]"
    assert (tmp_path / "made.txt").read_text() == "made\n"


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    (tmp_path / "root").mkdir()
    (tmp_path / "tmp").mkdir()
    arguments = ["--root", str(tmp_path / "root"), "--transport", "http"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    server = subprocess.Popen(
        [*ENTRY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=lambda: [lines.put(line) for line in server.stderr or ()])
    reader.start()
    try:
        url = None
        while url is None:
            url = re.search(r"sapwood mcp ready at (http://127\.0\.0\.1:\d+/mcp)$", lines.get(timeout=20).strip())
        yield server, url[1]
    finally:
        server.kill()
        server.wait()
        reader.join()
        assert server.stdout
        server.stdout.close()


def test_http(http_server: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    server, url = http_server
    names, text = anyio.run(use, url)
    assert len(names) == 12
    assert text == "made\nnoise\n[exit code 0]"
    assert (tmp_path / "root" / "made.txt").read_text() == "made\n"
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=10) == -signal.SIGTERM
    assert list((tmp_path / "tmp").iterdir()) == []
    assert server.stdout
    assert server.stdout.read() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--root", "/no/such/folder"], "does not exist"),
        (["--only", "nope"], "no such tool: nope"),
        (["--transport", "http", "--port", "70000"], "70000"),
        (["--transport", "http", "--host", "192.0.2.1"], "can't listen on 192.0.2.1"),
        (["--transport", "smoke"], "smoke"),
    ],
)
def test_bad_arguments_are_one_clear_error(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(mcp, arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
