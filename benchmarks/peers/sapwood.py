"""Ourselves: the engine alone, or the whole stack with its gateway. Nothing is installed: it is what runs this."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from agents.stack import SAPWOOD
from benchmarks.peers.base import Endpoint, Setup, free_port, serving


@dataclass(frozen=True)
class SapwoodEngine:
    """`flags` are more options of `sapwood engine`."""

    name: str = "sapwood"
    flags: tuple[str, ...] = ()

    def install(self, env: Path) -> None:
        return

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        port = free_port()
        command = [*SAPWOOD, "engine", "--model", str(setup.model), "--port", str(port)]
        return serving([*command, "--threads", str(setup.threads), *self.flags], port, env / "server.log")


class SapwoodStack:
    """Redis, gateway and one engine: what the gateway costs shows beside the engine alone."""

    name = "sapwood-up"

    def install(self, env: Path) -> None:
        return

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        port = free_port()
        return serving([*SAPWOOD, "up", "--model", str(setup.model), "--port", str(port)], port, env / "server.log")
