"""`/sessions`, `/sessions/{id}`, `/requests` and `/requests/{id}`: a caller sees its own tenant's and no other's.

A foreign record and one that never was get the same 404.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.errors import GatewayError
from gateway.guard.door import Door
from gateway.guard.tenant import Tenant
from gateway.observe.describe import describe, describe_session
from gateway.observe.records import Records

DEFAULT_LIMIT = 100
MAX_LIMIT = 2000


class History:
    def __init__(self, records: Records, door: Door) -> None:
        self._records = records
        self._door = door

    def routes(self) -> list[Route]:
        handlers: dict[str, Callable[[Request], Any]] = {
            "/sessions": self.sessions,
            "/sessions/{id:path}": self.session,
            "/requests": self.requests,
            "/requests/{id:path}": self.request,
        }
        return [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]

    async def sessions(self, request: Request) -> Response:
        tenant = await self._tenant(request)
        found = self._records.lineages(tenant.scope, _limit(request))
        return _json({"sessions": [describe_session(records) for records in found]})

    async def session(self, request: Request) -> Response:
        """By its id, or by the client's own name for it."""
        tenant = await self._tenant(request)
        name = request.path_params["id"]
        records = self._records.lineage(tenant.scope, name) or self._records.lineage(tenant.scope, tenant.hide(name))
        if not records:
            raise _unknown("session", name)
        requests = [describe(record) for record in records[: _limit(request)]]
        return _json({**describe_session(records), "requests": requests})

    async def requests(self, request: Request) -> Response:
        """Newest first; `?broken=1` leaves out those whose prefix held."""
        tenant = await self._tenant(request)
        broken = request.query_params.get("broken") in ("1", "true")
        found = self._records.newest(tenant.scope, _limit(request), broken=broken)
        return _json({"requests": [describe(record) for record in found]})

    async def request(self, request: Request) -> Response:
        tenant = await self._tenant(request)
        record = self._records.get(tenant.scope, request.path_params["id"])
        if record is None:
            raise _unknown("request", request.path_params["id"])
        return _json(describe(record))

    async def _tenant(self, request: Request) -> Tenant:
        return (await self._door.admit(request.headers)).tenant


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


def _limit(request: Request) -> int:
    asked = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not (asked.isascii() and asked.isdigit() and len(asked) < 10 and int(asked) > 0):
        message = f"limit must be a number from 1 to {MAX_LIMIT}."
        raise GatewayError(message, code="invalid_value", status=400, param="limit")
    return min(int(asked), MAX_LIMIT)


def _unknown(what: str, name: str) -> GatewayError:
    message = f"No {what} {name[:100]!r} is known. Only the newest are kept, in the gateway that served them."
    return GatewayError(message, code="not_found", status=404)
