"""What a run of the agent holds open besides its session: the model, the tools of a folder, what all branches share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from agents import branches
from agents.budget import Budget
from agents.cache_api import CacheApi
from agents.gate import Gate, Open
from agents.hold import CacheHold
from agents.loop import Loop
from agents.model import ChatModel
from agents.options import Options
from agents.profiles import by_name
from agents.servers.toolbox import Merged, open_servers
from agents.session import Session
from agents.shadow import Shadow
from agents.spawn import Spawning
from agents.toolbox import Toolbox, open_toolbox
from agents.view import View


class Workshop:
    """An async context manager; enter and leave it in one task."""

    def __init__(self, options: Options, view: View) -> None:
        self.options, self.view = options, view
        self.root = options.repo.resolve()
        self.model = ChatModel(options.base_url, options.api_key)
        self.cache = CacheApi(self.model.http, options.base_url)
        self.news: list[str] = []
        self.children: list[Session] = []
        """Sub-agents so far."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        await self._stack.enter_async_context(self.model)
        self.slots = anyio.CapacityLimiter(branches.TOOL_PROCESSES)
        self.hold = CacheHold(self.cache)
        servers = open_servers(
            self.options.servers,
            self.root,
            progress=self.view.progress,
            news=self.news.append,
            note=self.view.note,
        )
        self._servers = await self._stack.enter_async_context(servers)
        self.gate: Gate = Open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def tools_at(self, place: Path) -> AsyncIterator[Toolbox]:
        """The tools on the repository itself or on a worktree of it. Enter and leave in one task."""
        async with open_toolbox(place, self.slots, repo=self.root, allow_net=self.options.allow_net) as toolbox:
            yield Merged(toolbox, self._servers) if self.options.servers else toolbox

    @asynccontextmanager
    async def desk(self, place: Path, shadow: Shadow | None) -> AsyncIterator[Toolbox]:
        """The tools of the session itself, which may have sub-agents where `shadow` can make worktrees for them."""
        async with self.tools_at(place) as tools:
            if shadow is None or not self.options.spawn:
                yield tools
                return
            spawning = Spawning(tools, place, shadow, self.tools_at, self.options.spawn)
            self.children = spawning.children
            yield spawning

    def budget(self) -> Budget:
        """One that begins now."""
        return Budget.of(self.options.max_turns, self.options.max_tokens, self.options.max_seconds)

    def loop(self, session: Session, toolbox: Toolbox, budget: Budget) -> Loop:
        loop = Loop(
            session,
            self.model,
            toolbox,
            by_name(session.state.opened["profile"]),
            self.view,
            budget,
            self.gate,
            self.hold,
            self.news,
            session.state.opened["seed"],
        )
        if isinstance(toolbox, Spawning):
            toolbox.loop = loop
        return loop
