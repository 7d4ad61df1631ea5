"""Tells a client what a command says while it runs, as MCP progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context

from tools.errors import ToolFault
from tools.sandbox.capture import decode
from tools.sandbox.process import Hear

_PAUSE_SECONDS = 0.1
_NEWEST_BYTES = 4096

T = TypeVar("T")


class _News:
    """The newest bytes that nobody was told of yet."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._came = anyio.Event()

    def hear(self, piece: bytes) -> None:
        self._bytes += piece
        del self._bytes[:-_NEWEST_BYTES]
        self._came.set()

    async def take(self) -> str:
        await self._came.wait()
        self._came = anyio.Event()
        text = decode(bytes(self._bytes))
        self._bytes.clear()
        return text


async def telling(context: Context[Any, Any], work: Callable[[Hear], Awaitable[T]]) -> T:
    """The result of `work`; what it is heard to say goes to the client, a few times a second at most."""
    news = _News()
    result: list[T] = []
    fault: ToolFault | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, context, news)
        try:
            result.append(await work(news.hear))
        except ToolFault as refused:  # raised outside, so that the group does not wrap it
            fault = refused
        tasks.cancel_scope.cancel()
    if fault:
        raise fault
    return result[0]


async def _tell(context: Context[Any, Any], news: _News) -> None:
    number = 0
    while True:
        text = await news.take()
        number += 1
        try:
            await context.report_progress(number, None, text)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more
        await anyio.sleep(_PAUSE_SECONDS)
