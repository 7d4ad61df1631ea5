"""What differs between models: which tools they are offered, how a session begins, what comes next.

A profile has no state of its own. `next` is a function of the session's state, so a resumed session goes on
exactly where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agents.state import Message, Origin, State, Status
from agents.toolbox import Toolbox


@dataclass(frozen=True)
class Ask:
    """Ask the model for a turn; `tool` names the one call it must make."""

    tool: str | None = None


@dataclass(frozen=True)
class Say:
    """Append a user message."""

    text: str
    origin: Origin = Origin.TESTS


@dataclass(frozen=True)
class Verify:
    """Run the tests, without the model."""


@dataclass(frozen=True)
class Fork:
    """The shared part ends here: branches go on from this point."""


@dataclass(frozen=True)
class Rest:
    status: Status
    reason: str


Step = Ask | Say | Verify | Fork | Rest


@dataclass(frozen=True)
class Task:
    prompt: str
    repo: Path
    tests: str | None
    """A path or a command; None lets pytest find its tests."""
    branching: bool = False
    interactive: bool = False
    """A person is there to talk to."""


@dataclass(frozen=True)
class Opening:
    """How a session begins; all of it is frozen in the session's first event."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    sampling: dict[str, Any]
    output_limit: int
    """Characters of a tool's output that reach the model."""
    tests: dict[str, Any]
    """The call that decides, `tool` and `arguments`, for the agent's own verification."""
    bound: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Arguments set by the agent, by tool: the model neither sees nor chooses them."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What `next` needs to remember."""


class CannotOpen(Exception):
    """The profile cannot work on this task; `status` says how that counts."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Profile(Protocol):
    name: str

    async def open(self, task: Task, toolbox: Toolbox) -> Opening: ...

    def next(self, state: State) -> Step:
        """The step for a running session with no pending call."""
        ...


def tests_call(tests: str | None, repo: Path) -> dict[str, Any]:
    """`--tests` as the tool call that decides: a path or node id for pytest, else a command."""
    if tests and not (repo / tests.partition("::")[0]).exists():
        # In the root and in a shell of its own: the model's `cd` counts for later commands, not for the verdict.
        return {"tool": "run_command", "arguments": {"command": f'(cd -- "$SAPWOOD_ROOT" || exit\n{tests}\n)'}}
    return {"tool": "run_tests", "arguments": {"target": tests} if tests else {}}
