"""The composition root: every part is made here, once for each application, and handed to those who need it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.affinity.bindings import Bindings, wall_clock_ms
from gateway.affinity.epochs import StandInEpochs
from gateway.affinity.link import StoreLink
from gateway.affinity.local import LocalBindings
from gateway.affinity.redis_store import RedisStore
from gateway.config import GatewayConfig
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.embeddings import Embeddings
from gateway.dialects.fim import Fim
from gateway.dialects.messages.count import CountTokens
from gateway.dialects.messages.translator import Messages
from gateway.dialects.responses.dialect import Responses
from gateway.errors import GatewayError
from gateway.guard.door import Door
from gateway.guard.key_store import KeyRing, open_keys
from gateway.guard.limits import Limiter
from gateway.guard.shared import LinkedWindows
from gateway.observe.metrics import Metrics
from gateway.observe.routes import Observer
from gateway.placement.health import Health, Watcher
from gateway.placement.policy import SecondsPlacement
from gateway.placement.replica import Replica
from gateway.proxy.dispatch import Dispatcher
from gateway.proxy.inbound import Passing, Reader, Translated
from gateway.proxy.relay import Relay, Settings
from gateway.proxy.upstream import Upstreams
from gateway.retention.keeper import Keeper

READERS: Mapping[str, Reader] = {
    "/v1/chat/completions": Passing("/v1/chat/completions", Chat()),
    "/v1/completions": Passing("/v1/completions", Completions()),
    "/v1/responses": Translated(Responses()),
    "/v1/messages": Translated(Messages()),
    "/v1/messages/count_tokens": Translated(CountTokens()),
    "/v1/fim/completions": Translated(Fim()),
    "/v1/embeddings": Passing("/v1/embeddings", Embeddings()),
}
START_PATIENCE_S = 1.0
"""How long a start waits for the first probes, so that the first request finds its replicas."""


class Gateway:
    """The parts of one gateway. Made inside a running event loop, closed by leaving the context."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self.replicas = [Replica(url) for url in config.upstreams]
        self.link = StoreLink(RedisStore(config.redis_url)) if config.redis_url else None
        ttl_ms = int(config.binding_ttl_s * 1000)
        self.bindings = Bindings(
            self.link,
            LocalBindings(config.local_bindings, ttl_ms),
            ttl_s=config.binding_ttl_s,
            budget_s=config.lookup_budget_s,
        )
        self.upstreams = Upstreams(connect_timeout_s=config.connect_timeout_s, read_timeout_s=config.read_timeout_s)
        self.door = self._door()
        self.keeper = Keeper(self.upstreams.tell)
        self.health = self._health()
        self.dispatcher = Dispatcher(
            self.replicas,
            self.bindings,
            SecondsPlacement(config.prefill_tokens_per_s),
            self.upstreams,
            self.health,
            self.metrics,
        )

    async def start(self) -> None:
        if self.link:
            await self.link.start()
        await self.health.start(START_PATIENCE_S)

    async def close(self) -> None:
        await self.health.close()
        await self.upstreams.aclose()
        if self.link:
            await self.link.close()

    def routes(self) -> list[Route]:
        observer = Observer(self.replicas, self.bindings, self.metrics)
        relays = [(path, self._relay(path, reader)) for path, reader in READERS.items()]
        return [
            *(Route(path, relay, methods=["POST"]) for path, relay in relays),
            *(Route(path.removeprefix("/v1"), relay, methods=["POST"]) for path, relay in relays),
            Route("/", _alive, methods=["GET", "HEAD"]),
            *observer.routes(),
        ]

    def _relay(self, path: str, reader: Reader) -> Relay:
        config = self.config
        settings = Settings(config.max_body_bytes, config.heartbeat_s)
        return Relay(path, reader, self.door, self.dispatcher, self.bindings, self.keeper, self.metrics, settings)

    def _door(self) -> Door:
        config = self.config
        ring = KeyRing(open_keys(config.keys, config.redis_url)) if config.keys else None
        shared = LinkedWindows(self.link, config.lookup_budget_s) if self.link else None
        return Door(ring, Limiter(shared), config.tenant_secret.get_secret_value().encode(), wall_clock_ms)

    def _health(self) -> Health:
        config = self.config
        epochs = StandInEpochs(self.link, config.probe_timeout_s)
        http = httpx.AsyncClient(timeout=config.probe_timeout_s, trust_env=False)
        watchers = [Watcher(replica, http, epochs, config.probe_interval_s, wall_clock_ms) for replica in self.replicas]
        return Health(watchers, http)


def create_app(config: GatewayConfig) -> Starlette:
    gateway = Gateway(config)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.start()
        try:
            yield
        finally:
            await gateway.close()

    return Starlette(
        routes=gateway.routes(),
        lifespan=lifespan,
        exception_handlers={
            GatewayError: _gateway_error,
            HTTPException: _http_error,
            Exception: _internal_error,
        },
    )


async def _alive(_: Request) -> Response:
    """Some clients ask this before anything else."""
    return Response("sapwood gateway\n", media_type="text/plain")


async def _gateway_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayError)
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(error.retry_after_s)
    return Response(error.payload(), error.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    answer = GatewayError(f"{where}: {error.detail}.", code=code, status=error.status_code)
    return Response(answer.payload(), answer.status, {**(error.headers or {}), "content-type": "application/json"})


async def _internal_error(request: Request, _: Exception) -> Response:
    error = GatewayError("The gateway failed; its log says why.", code="internal_error", status=500)
    return await _gateway_error(request, error)
