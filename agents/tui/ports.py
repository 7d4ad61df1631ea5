"""What the terminal UI needs of a session, and what it offers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agents.state import State, Status
from agents.tui.question import Answer, Question
from agents.view import View


class Talk(Protocol):
    """One open session. Whatever it raises is one line on the screen, and the UI goes on."""

    @property
    def state(self) -> State: ...

    @property
    def context_limit(self) -> int | None: ...

    async def say(self, text: str) -> Status:
        """Cancelling the task stops the turn."""
        ...

    async def resume(self) -> Status: ...
    async def diff(self) -> str: ...
    async def undo(self) -> str: ...
    async def why(self) -> list[str]: ...
    async def compact(self) -> str: ...
    async def fork(self, event: int | None = None) -> str: ...
    async def models(self) -> list[str]: ...
    def use_model(self, name: str) -> None: ...


Ask = Callable[[Question], Awaitable[Answer]]
Converse = Callable[[View, Ask], AbstractAsyncContextManager[Talk]]
"""Opens the session that is talked to: it reports to the view, and asks a person before what needs a word."""
