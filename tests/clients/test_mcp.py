"""The protocol's own conformance suite and inspector against `sapwood mcp`.

    make clients

The suite is written for a server that exists to be tested: most of its scenarios call tools, resources or prompts of
given names. Those that any server must pass run against ours as it is; those about tools run against tools of these
names on our serving code; the rest is named below with the reason, so that a new scenario can't slip by.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.mcpserver import Context

from tests.clients.known import CannotInstall, Client
from tests.clients.test_clients import FOLDER
from tools.errors import ToolFault
from tools.family import ToolSpec
from tools.server import server_of

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]
SECONDS = 120
SAPWOOD = [sys.executable, "-P", "-c", "from agents.cli import main; main()"]

AS_IT_IS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
WITH_ITS_TOOLS = ("tools-call-simple-text", "tools-call-error", "tools-call-with-progress")
NOT_FOR_US = {
    "a tool that returns images, sound or resources: ours return text": (
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
    ),
    "the server logs to the client: ours says what happens as progress, and declares no logging": (
        "logging-set-level",
        "tools-call-with-logging",
    ),
    "the server asks the client for a completion or an answer: ours asks for nothing": (
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
    ),
    "a schema with $defs and $ref: ours have none on purpose": ("json-schema-2020-12",),
    "a stream that ends in the middle and is taken up again: optional, ours keeps no events": ("server-sse-polling",),
    "resources, prompts and completions of given names: ours has tools only": (
        "completion-complete",
        "resources-read-text",
        "resources-read-binary",
        "resources-templates-read",
        "resources-subscribe",
        "resources-unsubscribe",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-embedded-resource",
        "prompts-get-with-image",
    ),
}


class GivenTools:
    """The tools that the suite looks for, on our serving code."""

    def specs(self) -> list[ToolSpec]:
        given = (self.test_simple_text, self.test_error_handling, self.test_tool_with_progress)
        return [ToolSpec(function, read_only=True) for function in given]

    def test_simple_text(self) -> str:
        """Says a sentence."""
        return "This is a simple text response for testing."

    def test_error_handling(self) -> str:
        """Refuses."""
        raise ToolFault("This tool intentionally returns an error for testing")

    async def test_tool_with_progress(self, context: Context[Any, Any]) -> str:
        """Tells how far it is."""
        for done in (0, 50, 100):
            await context.report_progress(done, 100)
            await anyio.sleep(0.05)  # so that each goes out by itself, as the suite wants it
        return "done"


def installed(name: str, package: str, program: str):
    client = Client(name, package, program, (), lambda home, base: {}, node="22")
    try:
        return client.install(FOLDER)
    except CannotInstall as error:
        pytest.skip(f"{name} can't be installed here: {error}")


def said_by(program, *words: str) -> tuple[int, str]:
    """Exit code and standard output of an installed program, under the node that was installed with it."""
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


@pytest.fixture(scope="module")
def suite():
    return installed("conformance", "@modelcontextprotocol/conformance@0.1.16", "conformance")


@pytest.fixture(scope="module")
def inspector():
    return installed("inspector", "@modelcontextprotocol/inspector@2.12.0", "mcp-inspector")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture(scope="module")
def url(root):
    command = [*SAPWOOD, "mcp", "--root", str(root), "--transport", "http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            ready = (re.search(r"ready at (\S+)", line) for line in server.stderr)
            yield next(found[1] for found in ready if found)
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def given_url():
    with serving(server_of(GivenTools().specs())) as place:
        yield place


@contextmanager
def serving(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            thread.join()


def passes(suite, url: str, scenario: str) -> None:
    code, text = said_by(suite, "server", "--url", url, "--scenario", scenario)
    assert code == 0, text
    assert re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", text), text


@pytest.mark.parametrize("scenario", AS_IT_IS)
def test_the_server_as_it_is(suite, url, scenario):
    passes(suite, url, scenario)


@pytest.mark.parametrize("scenario", WITH_ITS_TOOLS)
def test_our_serving_of_the_suite_s_tools(suite, given_url, scenario):
    passes(suite, given_url, scenario)


def test_every_scenario_is_run_or_has_a_reason(suite):
    _, text = said_by(suite, "list", "--server")
    known = {*AS_IT_IS, *WITH_ITS_TOOLS, *(name for names in NOT_FOR_US.values() for name in names)}
    assert set(re.findall(r"^ {2}- (\S+)", text.partition("Client scenarios")[0], re.MULTILINE)) == known


@pytest.fixture(params=["stdio", "http"])
def inspect(request, inspector, root, url, tmp_path):
    """The inspector's JSON for a method of our server, over each transport."""
    server = {"command": SAPWOOD[0], "args": [*SAPWOOD[1:], "mcp", "--root", str(root)]}
    if request.param == "http":
        server = {"type": "streamable-http", "url": url}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"sapwood": server}}))
    front = ("--cli", "--config", str(tmp_path / "mcp.json"), "--server", "sapwood")

    def inspect(*words: str) -> dict[str, Any]:
        code, text = said_by(inspector, *front, *words)
        assert code == 0, text
        return json.loads(text[text.index("{") :])

    return inspect


def test_the_inspector_lists_and_calls_our_tools(inspect):
    tools = inspect("--method", "tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in tools][:3] == ["apply_patch", "check_code", "edit_file"]
    read = inspect("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=a.py")
    assert read["content"][0]["text"] == "   1 | x = 1"
    arguments = ("--tool-arg", "command=seq 3", "--tool-arg", "timeout=5")
    ran = inspect("--method", "tools/call", "--tool-name", "run_command", *arguments)
    assert ran["structuredContent"]["output"] == "1\n2\n3\n"
