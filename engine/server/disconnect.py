"""Notice that a client has gone while its answer is still being made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed the connection before its answer was ready."""


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, but cancel it and raise ClientGone as soon as the client closes the connection."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        watcher.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
