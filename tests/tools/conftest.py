"""A sandbox on a folder of its own, and its tools as an MCP client in this process sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tools.sandbox import Sandbox
from tools.sandbox import sandbox as sandbox_module
from tools.sandbox.isolation import Isolation, best_isolation, namespaces_work
from tools.server import build_server


@dataclass(frozen=True)
class Reply:
    text: str
    data: dict[str, Any] | None
    failed: bool


@pytest.fixture(autouse=True, scope="session")
def _bare_pytest(bare_pytest: None) -> None:
    """For speed; how plugins of a repository are met is not our code."""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    root = tmp_path / "repo"
    root.mkdir()
    with Sandbox(root) as made:
        yield made


@pytest.fixture
def root(sandbox: Sandbox) -> Path:
    return sandbox.root


@pytest.fixture
def call(sandbox: Sandbox) -> Callable[..., Reply]:
    """`call(tool, **arguments)` through the in-process MCP client, each time of the same server."""
    return caller(sandbox)


@pytest.fixture
def serve(sandbox: Sandbox) -> Callable[..., Callable[..., Reply]]:
    """The same for a server that is configured: `serve(test_command=…)`."""
    return lambda **options: caller(sandbox, **options)


def caller(sandbox: Sandbox, **options: Any) -> Callable[..., Reply]:
    server = build_server(sandbox, **options)

    def call(name: str, **arguments: Any) -> Reply:
        async def one() -> Reply:
            async with Client(server) as client:
                result = await client.call_tool(name, arguments)
                text = "\n".join(block.text for block in result.content)
                return Reply(text, result.structured_content, result.is_error)

        return anyio.run(one)

    return call


@pytest.fixture(params=list(Isolation), ids=lambda isolation: isolation.name.lower())
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Isolation:
    """Each kind of isolation that this host has, in turn."""
    kind: Isolation = request.param
    if kind is Isolation.BUBBLEWRAP and best_isolation() is not kind:
        pytest.skip("bubblewrap is not installed or not permitted here")
    if kind is Isolation.NAMESPACES and not namespaces_work():
        pytest.skip("user namespaces are not permitted here")
    monkeypatch.setattr(sandbox_module, "best_isolation", lambda: kind)
    return kind


def running(marker: str) -> list[int]:
    """The processes of this host, in any namespace, that have `marker` as a word of their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in words:
                found.append(int(entry))
    return found


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll until `condition` holds; the test fails if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.01)


@pytest.fixture
def processes() -> Callable[[str], list[int]]:
    return running


@pytest.fixture
def until() -> Callable[..., None]:
    return wait_until
