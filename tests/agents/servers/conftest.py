"""Opens servers for a test and keeps what they tell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agents.servers.config import Http, ServerConfig, Stdio
from agents.servers.supervisor import Patience
from agents.servers.toolbox import Servers, open_servers

HERE = Path(__file__).parent
QUICK = Patience(first=0.01)


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.news: list[str] = []
        self.progress: list[tuple[str, str]] = []
        self._turn = anyio.Event()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._stir()

    def tell(self, text: str) -> None:
        self.news.append(text)
        self._stir()

    def advance(self, name: str, text: str) -> None:
        self.progress.append((name, text))
        self._stir()

    def _stir(self) -> None:
        turn, self._turn = self._turn, anyio.Event()
        turn.set()

    async def until(self, reached: Callable[[], object]) -> None:
        with anyio.fail_after(20):
            while not reached():
                await self._turn.wait()


def plain(name: str = "p", /, *, start_seconds: float = 20, call_seconds: float = 20, required: bool = False, **given):
    words = [f"{key}={value}" for key, value in given.items()]
    way = Stdio(sys.executable, ("-S", "-E", str(HERE / "plain_server.py"), *words), {"GIVEN": "yes"})
    return ServerConfig(name, way, start_seconds, call_seconds, required)


def library(name: str = "l"):
    return ServerConfig(name, Stdio(sys.executable, (str(HERE / "library_server.py"), "stdio")), 60, 20)


def at(url: str, name: str = "h", **headers: str):
    return ServerConfig(name, Http(url, headers), 30, 20)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def run(tmp_path: Path, told: Told):
    """`run(test, *configs)` opens the servers, then awaits `test(servers)`."""

    def run(test, *configs: ServerConfig, patience: Patience = QUICK) -> None:
        async def main() -> None:
            opened = open_servers(
                configs, tmp_path, progress=told.advance, news=told.tell, note=told.note, patience=patience
            )
            async with opened as servers:
                with anyio.fail_after(60):
                    await test(servers)

        anyio.run(main)

    return run


def names(servers: Servers) -> list[str]:
    return [spec["function"]["name"] for spec in servers.specs()]
