"""`/admin`: what an operator may tell a running gateway. Open to this machine, and elsewhere to the admin key.

`/admin/replicas/REPLICA/drain` and `…/undrain`, where REPLICA is a URL or its HOST:PORT. A drain holds for this gateway
until it is undone, also over a reload; after a restart all replicas serve.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.errors import GatewayError
from gateway.guard.keys import secret_in
from gateway.placement.replica import Replica
from gateway.routing.pools import Pools

FROM_ELSEWHERE = ("origin", "forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Signs of a browser, which any page may have sent, or of a proxy: such a request is not this machine's own."""


class Admin:
    def __init__(self, pools: Pools, clock: Callable[[], float] = time.monotonic) -> None:
        self._pools = pools
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("/admin/replicas/{replica:path}/drain", self.drain, methods=["POST"]),
            Route("/admin/replicas/{replica:path}/undrain", self.undrain, methods=["POST"]),
        ]

    async def drain(self, request: Request) -> Response:
        """`?grace_s=SECONDS`: how long conversations at home there may go on; without it, as long as they like."""
        replica = self._replica(request)
        replica.drain(self._clock() + _grace_s(request))
        return self._changed(replica)

    async def undrain(self, request: Request) -> Response:
        replica = self._replica(request)
        replica.undrain()
        return self._changed(replica)

    def _changed(self, replica: Replica) -> Response:
        self._pools.move()
        told = {"url": replica.url, "duty": replica.duty.value, "in_flight": replica.load.in_flight}
        return JSONResponse(told)

    def _replica(self, request: Request) -> Replica:
        self._check(request)
        name = request.path_params["replica"].rstrip("/")
        for replica in self._pools.replicas:
            if name in (replica.url, urlsplit(replica.url).netloc):
                return replica
        message = f"There is no replica {name[:256]!r}; GET /info lists them."
        raise GatewayError(message, code="no_such_replica", status=404)

    def _check(self, request: Request) -> None:
        if _is_local(request):
            return
        key, sent = self._pools.config.admin_key, secret_in(request.headers)
        if key is None:
            message = "Only this machine may do that; set `admin_key` to allow it from others."
            raise GatewayError(message, code="forbidden", status=403)
        if sent is None or not hmac.compare_digest(sent.encode(), key.get_secret_value().encode()):
            message = "Send the admin key in the Authorization header, as `Bearer KEY`."
            raise GatewayError(message, code="invalid_admin_key", status=401)


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in FROM_ELSEWHERE):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _grace_s(request: Request) -> float:
    told = request.query_params.get("grace_s")
    if told is None:
        return math.inf
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        message = f"grace_s is {told[:64]!r}; it takes seconds of 0 or more."
        raise GatewayError(message, code="invalid_parameter", status=400, param="grace_s")
    return seconds
