"""`/cache/retain` and `/cache/release` by session: a client says itself how long its conversation will pause.

The paths and bodies are those of the engine, so a client may talk to either. The hint goes to the conversation's home;
a caller reaches its own tenant's conversations and no other's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.affinity.base import Level
from gateway.affinity.bindings import Bindings
from gateway.affinity.keys import KeySpace, LookupKey
from gateway.dialects.base import parse_object
from gateway.errors import GatewayError
from gateway.guard.door import Door
from gateway.proxy.body import Intake
from gateway.retention.keeper import MOST_S, Keeper, Outcome, Turn
from gateway.routing.pools import Pools

MAX_BODY = 16_384
PATIENCE_S = 10.0


class Hints:
    def __init__(
        self,
        pools: Pools,
        bindings: Bindings,
        keeper: Keeper,
        door: Door,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pools, self._bindings, self._keeper, self._door = pools, bindings, keeper, door
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("/cache/retain", self.retain, methods=["POST"]),
            Route("/cache/release", self.release, methods=["POST"]),
        ]

    async def retain(self, request: Request) -> Response:
        turn, body = await self._read(request)
        seconds = body.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_S:
            message = f"seconds must be a number above 0, up to {MOST_S:g}."
            raise GatewayError(message, code="invalid_value", status=400, param="seconds")
        return _told(await self._keeper.retain(turn, float(seconds)) if turn else Outcome.NOT_OFFERED)

    async def release(self, request: Request) -> Response:
        turn, _ = await self._read(request)
        return _told(await self._keeper.reply_ended(turn, (), self._clock()) if turn else None)

    async def _read(self, request: Request) -> tuple[Turn | None, dict[str, Any]]:
        """The conversation at its home, or None where it has none now; and the body."""
        tenant = (await self._door.admit(request.headers)).tenant
        body = parse_object(await Intake(request.receive).read(request.scope["headers"], MAX_BODY, PATIENCE_S))
        session = body.get("session")
        if not isinstance(session, str) or not session:
            raise GatewayError("session must name a conversation.", code="invalid_value", status=400, param="session")
        lineage = tenant.hide(session)
        found = await self._bindings.find([LookupKey(KeySpace(tenant.scope).session(lineage), Level.SESSION)])
        homes = {match.binding.replica: match.binding.epoch for match in found.matches}
        home = next((replica for replica in self._pools.replicas if homes.get(replica.url) == replica.epoch), None)
        return (Turn(tenant.scope, lineage, home.url, home.offers) if home else None), body


def _told(outcome: Outcome | None) -> Response:
    return JSONResponse({"outcome": None if outcome is None else outcome.value})
