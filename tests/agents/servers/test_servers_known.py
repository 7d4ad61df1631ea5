"""Servers that people use, installed from npm and PyPI, driven through the toolbox of a session.

    make clients

What cannot be installed here is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import anyio
import pytest

from agents.servers.config import read_servers
from agents.servers.toolbox import open_servers
from tests.clients.known import CannotInstall, Client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
FOLDER = Path(os.environ.get("SAPWOOD_CLIENTS", "~/.cache/sapwood/clients")).expanduser()


def program(package: str, name: str, node: str | None = None) -> Path:
    client = Client(f"mcp-{name}", package, name, (), lambda home, base: {}, node=node)
    try:
        return client.install(FOLDER)
    except CannotInstall as error:
        pytest.skip(f"{package} can't be installed here: {error}")


def drive(test, told, root: Path, server: Path, *args: str) -> None:
    # The programs of npm ask for a `node` on the path: the one that was installed beside them.
    path = f"{server.parent}{os.pathsep}{os.environ['PATH']}"
    table = {"s": {"command": str(server), "args": list(args), "env": {"PATH": path}, "required": True}}

    async def main() -> None:
        configs = read_servers(table, "mcpServers", os.environ, root)
        async with open_servers(configs, root, progress=told.advance, news=told.tell, note=told.note) as servers:
            text = json.dumps(servers.specs())
            assert '"$ref"' not in text
            with anyio.fail_after(120):
                await test(servers)
            assert json.dumps(servers.specs()) == text

    anyio.run(main)
    print(*told.notes, sep="\n")


def test_filesystem(told, tmp_path):
    root = tmp_path / "files"
    root.mkdir()
    (root / "a.txt").write_text("one\n")

    async def test(servers):
        read = await servers.call("s__read_text_file", {"path": str(root / "a.txt")})
        assert (read.text, read.is_error) == ("one\n", False)
        await servers.call("s__write_file", {"path": str(root / "b.txt"), "content": "two"})
        assert (root / "b.txt").read_text() == "two"
        outside = await servers.call("s__read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error
        assert "root:" not in outside.text

    server = program("@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-server-filesystem", "22")
    drive(test, told, root, server, str(root))


def test_everything(told, tmp_path):
    async def test(servers):
        names = {spec["function"]["name"] for spec in servers.specs()}
        assert (await servers.call("s__echo", {"message": "hello"})).text == "Echo: hello"
        image = await servers.call("s__get-tiny-image", {})
        assert "[image, image/png, " in image.text
        long = await servers.call("s__trigger-long-running-operation", {"duration": 1, "steps": 4})
        assert not long.is_error
        assert [name for name, _ in told.progress] == ["s__trigger-long-running-operation"] * len(told.progress)
        assert len(told.progress) >= 3
        assert (await servers.call("s__echo", {"wrong": 1})).is_error
        assert names == {spec["function"]["name"] for spec in servers.specs()}
        with anyio.move_on_after(0.3):
            await servers.call("s__trigger-long-running-operation", {"duration": 60, "steps": 60})
        assert (await servers.call("s__echo", {"message": "still"})).text == "Echo: still"

    server = program("@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything", "22")
    drive(test, told, tmp_path, server, "stdio")


def test_git(told, tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")

    async def test(servers):
        status = await servers.call("s__git_status", {"repo_path": str(tmp_path)})
        assert "new.txt" in status.text
        assert (await servers.call("s__git_show", {"repo_path": str(tmp_path), "revision": "nope"})).is_error

    drive(test, told, tmp_path, program("mcp-server-git==2026.10.19", "mcp-server-git"), "--repository", str(tmp_path))
