"""The MCP server of one's own, started as its configuration says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from agents.servers.config import read_json

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "mcp_server"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def configured():
    path = FOLDER / "mcp.json"
    [server] = read_json(path.read_text(), path.name, {}, FOLDER)
    return server


def test_its_configuration_is_the_one_of_other_agents():
    server = configured()
    assert (server.name, server.way.command, server.way.args) == ("decisions", "python", ("decisions.py", "decisions"))
    assert server.way.cwd.resolve() == FOLDER


@pytest.mark.anyio
async def test_it_answers_over_stdio():
    way = configured().way
    target = StdioServerParameters(command=sys.executable, args=list(way.args), cwd=way.cwd)
    async with Client(target) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["find_decisions", "read_decision"]
        assert all("$ref" not in json.dumps(tool.input_schema) for tool in tools)
        assert (
            await said(client, "find_decisions", words="float MONEY") == "0001-money: Money is a whole number of cents"
        )
        assert len((await said(client, "find_decisions")).splitlines()) == 2
        assert "no decision contains" in await said(client, "find_decisions", words="blockchain")
        assert (await said(client, "read_decision", name="0002-time")).startswith("# Times are UTC")
        for name in ("0003", "../README", "/etc/passwd"):
            result = await client.call_tool("read_decision", {"name": name})
            assert result.is_error
            assert "there are: 0001-money, 0002-time" in result.content[0].text


async def said(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error
    return result.content[0].text


def test_it_says_how_it_is_used():
    done = subprocess.run([sys.executable, FOLDER / "decisions.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python decisions.py FOLDER\n")
