"""The server as a whole: its tool block, run_command, cancellation and calls side by side."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tools.sandbox import Sandbox
from tools.server import build_server

Call = Callable[..., object]
NAMES = (
    "apply_patch check_code edit_file find_files git_diff list_files read_file replace_function run_command run_tests "
    "search_text write_file"
)


def tools_of(sandbox: Sandbox, **options: object) -> list[dict]:
    async def listed() -> list[dict]:
        async with Client(build_server(sandbox, **options)) as client:
            return [tool.model_dump(mode="json") for tool in (await client.list_tools()).tools]

    return anyio.run(listed)


def test_the_tool_block_is_sorted_small_and_the_same_each_time(sandbox: Sandbox, tmp_path: Path) -> None:
    tools = tools_of(sandbox)
    assert " ".join(tool["name"] for tool in tools) == NAMES
    with Sandbox(tmp_path) as other:
        assert json.dumps(tools) == json.dumps(tools_of(other))
    assert len(json.dumps([[tool["name"], tool["description"], tool["input_schema"]] for tool in tools])) < 6000
    for tool in [*tools, *tools_of(sandbox, only=["run_tests"], test_command="true")]:
        schema = json.dumps(tool["input_schema"])
        assert len(schema) < 600
        assert not any(word in schema for word in ("$ref", "$defs", "anyOf", "null", "title"))
        assert 0 < tool["description"].count(".") <= 2
        for rule in tool["input_schema"]["properties"].values():
            assert rule["type"] in {"string", "integer", "boolean"}
            assert rule["description"]


def test_optional_parameters_have_defaults(sandbox: Sandbox) -> None:
    for tool in tools_of(sandbox):
        schema = tool["input_schema"]
        for name, rule in schema["properties"].items():
            assert (name in schema.get("required", [])) != ("default" in rule)


def test_readers_are_marked_as_such(sandbox: Sandbox) -> None:
    readers = {tool["name"] for tool in tools_of(sandbox) if tool["annotations"]["read_only_hint"]}
    assert readers == {"check_code", "find_files", "git_diff", "list_files", "read_file", "search_text"}


def test_only_some_tools(sandbox: Sandbox) -> None:
    assert [tool["name"] for tool in tools_of(sandbox, only=["run_tests", "edit_file"])] == ["edit_file", "run_tests"]
    with pytest.raises(ValueError, match="no such tool: nope; there are apply_patch, check_code"):
        build_server(sandbox, only=["nope"])


def test_a_command_shows_output_and_exit_code(call: Call) -> None:
    reply = call("run_command", command="echo out; echo err >&2; exit 3")
    assert (reply.text, reply.failed) == ("out\nerr\n[exit code 3]", False)
    assert reply.data["exit_code"] == 3


def test_a_command_that_takes_too_long(call: Call) -> None:
    reply = call("run_command", command="echo started; sleep 60", timeout=1)
    assert reply.failed
    assert reply.text == (
        "started\n[timed out after 1 s; the command and everything it started were killed; "
        "a new shell goes on in the root]"
    )


def test_long_output_says_how_to_read_on(call: Call) -> None:
    reply = call("run_command", command="seq 100000")
    assert reply.text.startswith("1\n2\n")
    assert "bytes left out" in reply.text
    assert reply.text.endswith(
        "100000\n[the middle was left out; to read on, run: sed -n '1451,1650p' ~/output/1.txt]\n[exit code 0]"
    )
    assert len(reply.text) < 13_000


@pytest.mark.parametrize("command", ["", "  \n", "echo \0"])
def test_no_command(call: Call, command: str) -> None:
    assert call("run_command", command=command).failed


def test_cancelling_a_call_ends_its_command(sandbox: Sandbox, processes: Callable[[str], list[int]]) -> None:
    marker = f"{secrets.randbelow(9000) + 1000}.{secrets.randbelow(10**9)}"

    async def count(wanted: Callable[[int], bool]) -> None:
        with anyio.fail_after(10):
            while not wanted(len(processes(marker))):  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def go() -> None:
        async with Client(build_server(sandbox)) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "run_command", {"command": f"sleep {marker} & sleep {marker}"})
                await count(lambda number: number == 2)
                tasks.cancel_scope.cancel()
            await count(lambda number: number == 0)
            assert not (await client.call_tool("list_files", {})).is_error

    anyio.run(go)


def test_calls_run_side_by_side(sandbox: Sandbox) -> None:
    texts: list[str] = []

    async def go() -> None:
        async with Client(build_server(sandbox)) as client:

            async def one(own: str, other: str) -> None:
                command = f"touch {own}; while [ ! -e {other} ]; do sleep 0.01; done; echo met"
                result = await client.call_tool("run_command", {"command": command, "timeout": 20})
                texts.append(result.content[0].text)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "a", "b")
                tasks.start_soon(one, "b", "a")

    anyio.run(go)
    assert texts == ["met\n[exit code 0]"] * 2


def test_a_defect_is_one_line_for_the_model_and_one_for_the_log(call, monkeypatch, caplog):
    monkeypatch.setattr("tools.files.read_text", lambda sandbox, path: [][0])
    reply = call("read_file", path="x")
    assert reply.failed
    assert reply.text == "read_file failed inside; that is a defect of the tool. Try another way."
    assert ["IndexError" in line.getMessage() and line.exc_info is None for line in caplog.records] == [True]


def test_any_answer_can_be_sent(sandbox):
    odd = os.fsdecode(b"test_odd\xff.py")
    (sandbox.root / odd).write_text("def test_odd(: assert 0\n")

    async def answers():
        async with Client(build_server(sandbox)) as client:
            for name in ("list_files", "check_code", "run_tests"):
                yield await client.call_tool(name, {})

    async def check():
        async for result in answers():
            assert "test_odd" in result.model_dump_json()

    anyio.run(check)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("run_command", {"command": "echo \ud800"}), ("find_files", {"pattern": "**/" * 3000 + "x"})],
)
def test_odd_arguments_are_refused_with_a_reason(call, root, tool, arguments):
    (root / "a.py").touch()
    reply = call(tool, **arguments)
    assert reply.failed
    assert "failed inside" not in reply.text
