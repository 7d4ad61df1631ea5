"""The composition root: every part is made here, once for each application, and handed to those who need it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.affinity.bindings import Bindings, wall_clock_ms
from gateway.affinity.epochs import StandInEpochs
from gateway.affinity.link import StoreLink
from gateway.affinity.local import LocalBindings
from gateway.affinity.redis_store import RedisStore
from gateway.config import GatewayConfig
from gateway.config_pools import PoolConfig
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.embeddings import Embeddings
from gateway.dialects.fim import Fim
from gateway.dialects.messages.count import CountTokens
from gateway.dialects.messages.translator import Messages
from gateway.dialects.responses.dialect import Responses
from gateway.errors import GatewayError, internal_error
from gateway.guard.door import Door
from gateway.guard.key_store import KeyRing, open_keys
from gateway.guard.limits import Limiter
from gateway.guard.shared import LinkedWindows
from gateway.guard.streams import Streams
from gateway.observe.assemble import observations
from gateway.observe.history import History
from gateway.observe.metrics import Metrics
from gateway.observe.routes import Observer
from gateway.placement.base import Placement
from gateway.placement.health import Health, Watcher
from gateway.placement.policy import policy_named
from gateway.placement.replica import Replica
from gateway.proxy.dispatch import Dispatcher
from gateway.proxy.inbound import Passing, Reader, Translated
from gateway.proxy.outlet import as_failure
from gateway.proxy.relay import Relay, Settings
from gateway.proxy.rewriting import Rewriting
from gateway.proxy.upstream import Upstreams
from gateway.retention.hints import Hints
from gateway.retention.keeper import Keeper
from gateway.rewrite.rewriter import Rewriter
from gateway.routing.admin import Admin
from gateway.routing.discovery import Discovery
from gateway.routing.gauges import PoolGauges
from gateway.routing.pools import Pools

log = logging.getLogger("sapwood.gateway")

READERS: Mapping[str, Reader] = {
    "/v1/chat/completions": Passing("/v1/chat/completions", Chat()),
    "/v1/completions": Passing("/v1/completions", Completions()),
    "/v1/responses": Translated(Responses()),
    "/v1/messages": Translated(Messages()),
    "/v1/messages/count_tokens": Translated(CountTokens()),
    "/v1/fim/completions": Translated(Fim()),
    "/v1/embeddings": Passing("/v1/embeddings", Embeddings()),
}
TOLD_TO_PAGES = [
    "retry-after",
    *(f"x-sapwood-{name}" for name in ("cache", "epoch", "node", "replica", "request", "rewrite", "warning")),
]
"""Headers of answers that a web page of an allowed origin may read."""
RELOADED = frozenset(
    {
        "upstreams",
        "pools",
        "routes",
        "default_pool",
        "queue",
        "breaker",
        "dns_interval_s",
        "admin_key",
        "prefill_tokens_per_s",
    }
)
"""Settings that count at once when they are changed while the gateway runs."""
START_PATIENCE_S = 1.0
"""How long a start waits for the first probes, so that the first request finds its replicas."""


class Gateway:
    """The parts of one gateway. Made inside a running event loop, closed by leaving the context."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self.link = StoreLink(RedisStore(config.redis_url), self.metrics.redis.observe) if config.redis_url else None
        ttl_ms = int(config.binding_ttl_s * 1000)
        self.bindings = Bindings(
            self.link,
            LocalBindings(config.local_bindings, ttl_ms),
            ttl_s=config.binding_ttl_s,
            budget_s=config.lookup_budget_s,
        )
        self.upstreams = Upstreams(connect_timeout_s=config.connect_timeout_s, read_timeout_s=config.read_timeout_s)
        self.door = self._door()
        self.streams = Streams(config.max_streams, config.max_streams_per_key)
        self.metrics.streams.set_function(lambda: self.streams.open)
        self.observations = observations(config, self.metrics, self.link)
        self.keeper = Keeper(self.upstreams.tell)
        self.probes = httpx.AsyncClient(timeout=config.probe_timeout_s, trust_env=False)
        self.epochs = StandInEpochs(self.link, config.probe_timeout_s)
        self.health = Health(self._watcher)
        self.pools = Pools(config, self.health, _placement)
        self.rewriting = Rewriting(self.pools.route, Rewriter())
        self.discovery = Discovery(self.pools.found)
        self.metrics.register(PoolGauges(self.pools))
        self.dispatcher = Dispatcher(self.pools, self.bindings, self.upstreams, self.health, self.metrics)
        self.relays = self._relays()

    async def start(self) -> None:
        if self.link:
            await self.link.start()
        self._discover()
        await self.discovery.settle(START_PATIENCE_S)
        await self.health.start(START_PATIENCE_S)

    def apply(self, config: GatewayConfig) -> None:
        """A new configuration while running: streams, keys, bindings, and what is known of replicas that stay, stay."""
        fixed = GatewayConfig.model_fields.keys() - RELOADED
        changed = sorted(name for name in fixed if getattr(config, name) != getattr(self.config, name))
        if changed:
            log.warning("%s: changed, which counts from the next start on", ", ".join(changed))
        self.pools.apply(config)
        self._discover()
        log.warning("the configuration was read again")

    def _discover(self) -> None:
        config = self.pools.config
        self.discovery.follow({pool.name: pool.dns for pool in config.pools if pool.dns}, config.dns_interval_s)

    async def close(self) -> None:
        await self.discovery.close()
        await self.health.close()
        await self.probes.aclose()
        await self.upstreams.aclose()
        if self.link:
            await self.link.close()
        await self.observations.aclose()

    def routes(self) -> list[Route]:
        observer = Observer(self.pools, self.bindings, self.metrics)
        return [
            *(Route(path, relay, methods=["POST"]) for path, relay in self.relays.items()),
            Route("/", _alive, methods=["GET", "HEAD"]),
            *observer.routes(),
            *Admin(self.pools).routes(),
            *History(self.observations.records, self.door).routes(),
            *Hints(self.pools, self.bindings, self.keeper, self.door).routes(),
        ]

    def _relays(self) -> Mapping[str, Relay]:
        """By path, with and without the version in it."""
        relays = {path: self._relay(path, reader) for path, reader in READERS.items()}
        return relays | {path.removeprefix("/v1"): relay for path, relay in relays.items()}

    def _relay(self, path: str, reader: Reader) -> Relay:
        config = self.config
        settings = Settings(config.max_body_bytes, config.heartbeat_s, config.client_timeout_s)
        return Relay(
            path,
            reader,
            self.door,
            self.streams,
            self.rewriting,
            self.dispatcher,
            self.bindings,
            self.keeper,
            self.observations,
            settings,
        )

    def _door(self) -> Door:
        config = self.config
        ring = KeyRing(open_keys(config.keys, config.redis_url)) if config.keys else None
        shared = LinkedWindows(self.link, config.lookup_budget_s) if self.link else None
        return Door(ring, Limiter(shared), config.tenant_secret.get_secret_value().encode(), wall_clock_ms)

    def _watcher(self, replica: Replica) -> Watcher:
        interval_s = self.config.probe_interval_s
        return Watcher(replica, self.probes, self.epochs, interval_s, wall_clock_ms, lambda: self.pools.move())


def _placement(pool: PoolConfig, config: GatewayConfig) -> Placement:
    return policy_named(pool.policy, config.prefill_tokens_per_s)


def create_app(config: GatewayConfig) -> ASGIApp:
    return as_app(Gateway(config))


def as_app(gateway: Gateway) -> ASGIApp:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.start()
        try:
            yield
        finally:
            await gateway.close()

    routed = Starlette(
        routes=gateway.routes(),
        lifespan=lifespan,
        exception_handlers={
            GatewayError: _gateway_error,
            HTTPException: _http_error,
            Exception: _internal_error,
        },
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        """A request to be relayed goes past the router, which would take as long as its placement."""
        relay = gateway.relays.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (relay or routed)(scope, receive, send)

    return _cross_origin(app, gateway.config.cors_origins)


def _cross_origin(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Web pages of other origins can do nothing here unless they are named."""
    if not origins:
        return app
    return CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"], expose_headers=TOLD_TO_PAGES
    )


def refusal(path: str, error: GatewayError) -> bytes:
    """The body of an error's answer, as the clients of this path expect it."""
    reader = READERS.get(path) or READERS.get(f"/v1{path}")
    return reader.refuse(as_failure(error)) if reader else error.payload()


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
    return await _gateway_error(request, internal_error())
