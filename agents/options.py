"""What a run of the agent was asked to do: the command line and the configuration, put together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.servers.config import ServerConfig


@dataclass(frozen=True)
class Options:
    """None where nothing was said."""

    repo: Path
    base_url: str
    prompt: str | None = None
    model: str | None = None
    api_key: str | None = None
    branches: int | None = None
    rounds: int = 1
    """How often branches may be tried; each round after the first is told of the best failure before it."""
    spawn: int = 0
    """Sub-agents that the model may start in all; the tool is offered where there may be any."""
    tests: str | None = None
    max_turns: int = 50
    max_tokens: int | None = None
    max_seconds: float | None = None
    context: int | None = None
    """Tokens that a conversation may have; None asks the endpoint."""
    servers: tuple[ServerConfig, ...] = ()
    """Other people's MCP servers, those that the user trusts."""
    allow_net: bool = False
    temperature: float | None = None
    seed: int | None = None
    resume: str | None = None
    fork: str | None = None
    """ID or ID@EVENT of the session to go on from, in a session of one's own."""
    profile: str = "auto"
    keep: bool = False
