"""What the routes share: one served model, its engine and how requests reach it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HTTPRequest

from engine.cache.keys import as_key
from engine.cache.manager import KVCache
from engine.config import EngineConfig
from engine.core import Engine, Event
from engine.errors import RequestError
from engine.prompt.transcript import Transcript
from engine.schedule.request import Request
from engine.server.generation import Dispatcher
from engine.server.metrics import Metrics
from engine.server.prepare import Caller, Preparer

MAX_RETAIN_SECONDS = 3600.0

log = logging.getLogger("sapwood.engine")


@dataclass
class Service:
    """Lives on the event loop. `epoch` names this start of the engine: what was cached before is gone."""

    config: EngineConfig
    model: str
    engine: Engine
    preparer: Preparer
    transcript: Transcript
    dispatcher: Dispatcher
    metrics: Metrics
    epoch: str = field(default_factory=lambda: secrets.token_hex(8))
    created: int = field(default_factory=lambda: int(time.time()))
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _embedding: int = 0

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            message = f"The model {name!r} does not exist; this server has {self.model!r}."
            raise RequestError(message, code="model_not_found", param="model", status=404)

    def headers(self) -> dict[str, str]:
        return {"x-sapwood-epoch": self.epoch}

    def begin_turn(self, caller: Caller, prompt: Sequence[int]) -> None:
        """Before a turn is submitted: what its session left behind is evicted first from now on."""
        if caller.session:
            ids = as_key(prompt)
            self._tell(lambda kv: kv.begin_turn(caller.tenant, caller.session, ids))

    def end_turn(self, caller: Caller, prompt: Sequence[int], requests: Sequence[Request]) -> None:
        """After the answers of a turn have ended, or their client has gone (its abort comes before this)."""
        if caller.session:
            ids = as_key(prompt)

            def end(kv: KVCache) -> None:
                for request in requests:
                    kv.end_turn(caller.tenant, caller.session, ids, request.known[len(ids) : request.computed])

            self._tell(end)

    @contextmanager
    def embedding(self) -> Iterator[None]:
        """Around a request for embeddings, which is one in flight however many texts it has. RequestError
        `queue_full`."""
        self.dispatcher.check_room(1 + self._embedding)
        self._embedding += 1
        try:
            yield
        finally:
            self._embedding -= 1

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs `work` with nobody waiting for it; what it raises is logged."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_failure)

    @property
    def idle(self) -> bool:
        """Whether nothing runs in the background."""
        return not self._tasks

    def _tell(self, function: Callable[[KVCache], Any]) -> None:
        """A call of the cache that nobody waits for."""
        self.engine.call(function).add_done_callback(_log_failure)

    def run(self, requests: Sequence[Request]) -> AsyncGenerator[Event, None]:
        """The dispatcher's events, with the time to the first token noted."""
        return self._timed(self.dispatcher.run(requests))

    async def _timed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        began = time.perf_counter()
        first = True
        async with aclosing(events):
            async for event in events:
                if first and event.sampled is not None:
                    self.metrics.ttft.observe(time.perf_counter() - began)
                    first = False
                yield event


def _log_failure(done: Future[Any] | asyncio.Task[Any]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("work in the background failed", exc_info=error)


def caller_of(request: HTTPRequest) -> Caller:
    """Tenant, session and retention come from the gateway, which owns these headers."""
    value = request.headers.get("x-sapwood-retain", "0")
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_RETAIN_SECONDS:
        raise RequestError(
            f"x-sapwood-retain must be a number of seconds up to {MAX_RETAIN_SECONDS:.0f}, not {value!r}.",
            code="invalid_value",
            param="x-sapwood-retain",
        )
    headers = request.headers
    ahead = headers.get("x-sapwood-ahead") == "1"
    return Caller(headers.get("x-sapwood-tenant", ""), seconds, headers.get("x-sapwood-session", ""), ahead)
