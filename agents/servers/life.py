"""One life of a connection to a server: whether it ended, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.shared.message import SessionMessage


class Life:
    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.reason = ""
        self.said = ""
        """The end of what a program wrote to its standard error."""
        self.status = 0
        """The last HTTP status that was an error."""
        self.quit = False
        """A program ended by itself."""

    def end(self, reason: str) -> None:
        """The first reason counts."""
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()


class Watched:
    """What the server sends; ends `life` when there is no more of it."""

    def __init__(self, inner: Any, life: Life, reason: str) -> None:
        self._inner, self._life, self._reason = inner, life, reason

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._inner.__anext__()
        except BaseException:
            self._life.end(self._reason)
            raise
        return item

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
