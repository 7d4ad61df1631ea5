"""The tools that one server offers, kept up to date over all its lives.

Once a model has seen them, a change is news for it and never another list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import anyio

from agents.servers.listing import Listing, difference, listing_of

if TYPE_CHECKING:
    from mcp import Client

MOST_PAGES = 100
_FIRST_DELAY, _LAST_DELAY = 0.5, 60.0


class Hears(Protocol):
    """Who is told what happens to servers, besides the outcome of calls."""

    def note(self, text: str) -> None:
        """For the user."""
        ...

    def news(self, text: str) -> None:
        """For the model."""
        ...

    def named(self, server: str, tool: str) -> str:
        """The name that the model knows a tool by."""
        ...


class Offers:
    def __init__(self, server: str, hears: Hears) -> None:
        self.listing: Listing = {}
        """The newest."""
        self.frozen = False
        """The model has seen the list."""
        self._server, self._hears = server, hears
        self._changed = anyio.Event()

    async def fetch(self, client: Client) -> None:
        before, self.listing = self.listing, listing_of(await _listed(client))
        if self.frozen:
            text = difference(self._server, before, self.listing, lambda tool: self._hears.named(self._server, tool))
            if text:
                self._hears.news(text)

    async def hear(self, message: object) -> None:
        """What the server sends of itself."""
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def follow(self, client: Client) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._subscribe, client)
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                await self._fetch_again(client)

    async def _fetch_again(self, client: Client) -> None:
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            await self.fetch(client)
        except (MCPError, ValidationError) as error:
            why = " ".join(str(error).split())[:200]
            self._hears.note(f"server {self._server} says that its tools changed, but does not list them: {why}")

    async def _subscribe(self, client: Client) -> None:
        """A server of 2026 tells of changes only who asks for it, and the answer may break off."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        if not (tools and tools.list_changed):
            return
        delay = _FIRST_DELAY
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._changed.set()
            except (ListenNotSupportedError, MCPError, TimeoutError):
                return
            except SubscriptionLost:
                pass
            await anyio.sleep(delay)
            self._changed.set()  # what was missed is not told again
            delay = min(2 * delay, _LAST_DELAY)


async def _listed(client: Client) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools
