"""The agent as one MCP tool: task in, diff and test result out, told while it works, cancelled when asked."""

from __future__ import annotations

import json
import sys
import threading

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from agents.as_tool import AgentTool
from agents.cli.mcp import mcp
from agents.options import Options
from agents.session import Session, folder_of
from agents.state import Status
from tools.server import server_of

FIX = {"path": "calc.py", "old": "return a - b", "new": "return a + b"}
ENTRY = (sys.executable, "-P", "-c", "from agents.cli import main; main()", "mcp", "--agent")


@pytest.fixture
def server(repo, upstream):
    options = Options(repo=repo, base_url=upstream.url, profile="full")
    return server_of(AgentTool(options).specs())


@pytest.fixture
def solve(server):
    """`solve(task=…)` and what was told meanwhile."""

    def solve(**arguments):
        told = []

        async def hear(progress, total, message):
            told.append((progress, message))

        async def go():
            async with Client(server) as client:
                return await client.call_tool("solve_task", arguments, progress_callback=hear)

        return anyio.run(go), told

    return solve


def fixing(upstream):
    upstream.turns = [upstream.use("edit_file", **FIX), upstream.say("Done.")]


def test_the_one_tool_is_small(server):
    async def listed():
        async with Client(server) as client:
            return (await client.list_tools()).tools

    (tool,) = anyio.run(listed)
    schema = json.dumps(tool.input_schema)
    assert tool.name == "solve_task"
    assert list(tool.input_schema["properties"]) == ["task", "tests", "branches"]
    assert tool.input_schema["required"] == ["task"]
    assert len(schema) < 600
    assert not any(word in schema for word in ("$ref", "anyOf", "title"))


def test_a_task_is_solved_and_told(solve, upstream, repo):
    fixing(upstream)
    result, told = solve(task="repair add")
    text, data = result.content[0].text, result.structured_content
    assert not result.is_error
    assert text.startswith("solved: ")
    assert "\ntests:\n2 passed\n" in text
    assert "-    return a - b\n+    return a + b" in text
    assert (data["status"], data["tests"]) == ("solved", "2 passed")
    assert "+    return a + b" in data["diff"]
    assert Session.load(folder_of(repo), data["session"]).state.status is Status.SOLVED
    assert "return a + b" in (repo / "calc.py").read_text()
    said = "".join(message for _, message in told)
    assert "main turn 1: edit_file (prompt 100, cached 90)\n" in said
    assert "main tests: passed\n" in said
    assert [number for number, _ in told] == sorted({number for number, _ in told})


def test_branches(solve, upstream, repo):
    upstream.turns = [upstream.use("run_tests")]
    upstream.script = lambda body, headers: (
        upstream.use("run_tests")
        if len(body["messages"]) < 4
        else upstream.say("Done.")
        if any("return a + b" in json.dumps(message) for message in body["messages"])
        else upstream.use("edit_file", **FIX)
    )
    result, _ = solve(task="repair add", branches=2)
    assert result.structured_content["status"] == "solved"
    assert result.structured_content["winner"]
    assert "return a + b" in (repo / "calc.py").read_text()


def test_what_is_not_solved_is_an_ordinary_result(solve, upstream):
    upstream.turns = [upstream.say("I can't.")] * 9
    result, _ = solve(task="repair add")
    assert not result.is_error
    assert result.content[0].text.startswith("not solved: ")


def test_a_model_that_cannot_be_reached_is_an_error(solve, upstream):
    upstream.turns = [upstream.refuse(401, "no such key")]
    result, _ = solve(task="repair add")
    assert result.is_error
    assert result.content[0].text.startswith("model failed: ")
    assert "no such key" in result.content[0].text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": " "}, "the task is empty"),
        ({"task": "x", "branches": 0}, "give 1 to 64"),
        ({"branches": 2}, "task: Field required. It takes: task (required), tests, branches"),
    ],
)
def test_what_it_cannot_take(solve, upstream, arguments, words):
    result, _ = solve(**arguments)
    assert result.is_error
    assert words in result.content[0].text
    assert upstream.bodies == []


def test_cancelling_the_call_stops_the_agent(server, upstream, repo):
    held = upstream.say("I think it is")
    held.gate = threading.Event()
    upstream.turns = [held]

    async def go():
        async with Client(server) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "solve_task", {"task": "repair add"})
            await anyio.to_thread.run_sync(upstream.asked.wait)
            tasks.cancel_scope.cancel()

    anyio.run(go)
    assert upstream.closed.wait(10)
    (path,) = folder_of(repo).glob("*.jsonl")
    assert Session.load(folder_of(repo), path.stem).state.status is Status.INTERRUPTED


def test_tasks_wait_for_one_another(server, upstream):
    fixing(upstream)
    upstream.turns += [upstream.say("Nothing to do.")] * 3
    statuses = []

    async def one(client):
        result = await client.call_tool("solve_task", {"task": "repair add"})
        statuses.append(result.structured_content["status"])

    async def go():
        async with Client(server) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(one, client)
            tasks.start_soon(one, client)

    anyio.run(go)
    assert statuses == ["solved", "solved"]
    assert len({name.partition(".")[0] for name in upstream.sessions}) == 2
    assert upstream.sessions == sorted(upstream.sessions, key=upstream.sessions.index)


def test_over_stdio(upstream, repo):
    fixing(upstream)
    arguments = [*ENTRY[1:], "--root", str(repo), "--base-url", upstream.url, "--model", "scripted"]
    told = []

    async def hear(progress, total, message):
        told.append(message)

    async def go():
        async with Client(StdioServerParameters(command=ENTRY[0], args=arguments)) as client:
            return await client.call_tool("solve_task", {"task": "repair add"}, progress_callback=hear)

    result = anyio.run(go)
    assert result.content[0].text.startswith("solved: ")
    assert "turn 1: edit_file" in "".join(told)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "m"], "--model needs --agent"),
        (["--agent", "--only", "read_file"], "--only does not go with --agent"),
        (["--agent", "--base-url", "nowhere"], "is not an http:// or https:// URL"),
        (["--agent", "--api-key-env", "NO_SUCH_VARIABLE"], "that variable is not set"),
    ],
)
def test_options_that_do_not_go_together(arguments, words):
    result = CliRunner().invoke(mcp, arguments)
    assert result.exit_code == 2
    assert words in result.output
