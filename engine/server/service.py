"""What the routes share: one served model, its engine and how requests reach it."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.requests import Request as HTTPRequest

from engine.config import EngineConfig
from engine.core import Engine, Event
from engine.errors import RequestError
from engine.prompt.transcript import Transcript
from engine.schedule.request import Request
from engine.server.generation import Dispatcher
from engine.server.metrics import Metrics
from engine.server.prepare import Caller, Preparer

MAX_RETAIN_SECONDS = 3600.0


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

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            message = f"The model {name!r} does not exist; this server has {self.model!r}."
            raise RequestError(message, code="model_not_found", param="model", status=404)

    def headers(self) -> dict[str, str]:
        return {"x-sapwood-epoch": self.epoch}

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


def caller_of(request: HTTPRequest) -> Caller:
    """Tenant and retention come from the gateway, which owns these headers."""
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
    return Caller(request.headers.get("x-sapwood-tenant", ""), seconds)
