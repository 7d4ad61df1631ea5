"""A branch's worktree and tools, made when the first tool is called: all branches ask the model at once before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from agents.toolbox import Toolbox, ToolResult

Furnish = Callable[[Path], AbstractAsyncContextManager[Toolbox]]


class Workplace:
    """A `Toolbox` and an async context manager; enter, call and leave in one task. `make` gives the worktree,
    `furnish` the tools on it.
    """

    def __init__(self, make: Callable[[], Path], furnish: Furnish) -> None:
        self._make, self._furnish, self._stack = make, furnish, AsyncExitStack()
        self._toolbox: Toolbox | None = None
        self.tree: Path | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def specs(self) -> list[dict[str, Any]]:
        return self._toolbox.specs() if self._toolbox else []

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if self._toolbox is None:
            self.tree = await anyio.to_thread.run_sync(self._make)
            self._toolbox = await self._stack.enter_async_context(self._furnish(self.tree))
        return await self._toolbox.call(name, arguments)
