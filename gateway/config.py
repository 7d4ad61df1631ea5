"""The gateway's settings: one frozen object, checked once, handed down from the composition root."""

from __future__ import annotations

from collections import Counter
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from gateway.config_pools import DEFAULT_POOL, PoolConfig, QueueSettings
from gateway.config_urls import redis_base, upstream_bases
from gateway.placement.breaker import BreakerSettings
from gateway.routing.rules import Rule


class GatewayConfig(BaseModel):
    """Every duration is in seconds, every size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstreams: tuple[str, ...] = ()
    """The replicas of the pool `default`; the pools below come on top."""
    pools: tuple[PoolConfig, ...] = ()
    routes: tuple[Rule, ...] = ()
    default_pool: str | None = None
    """Where requests go that fit no route."""
    queue: QueueSettings = QueueSettings()
    breaker: BreakerSettings = BreakerSettings()
    dns_interval_s: float = Field(default=5.0, gt=0)
    admin_key: SecretStr | None = None
    """Opens `/admin` to clients that are not on this machine."""

    redis_url: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)

    tenant_secret: SecretStr = SecretStr("sapwood")
    """Key of the HMAC that scopes bindings by tenant. Gateways over one Redis must share it."""
    keys: str | None = None
    """Where API keys are: a file's path, or `redis`. Without it no key is asked for."""
    binding_ttl_s: float = Field(default=3600, gt=0)
    lookup_budget_s: float = Field(default=0.005, gt=0)
    local_bindings: int = Field(default=65_536, gt=0)

    probe_interval_s: float = Field(default=1.0, gt=0)
    probe_timeout_s: float = Field(default=2.0, gt=0)
    connect_timeout_s: float = Field(default=2.0, gt=0)
    read_timeout_s: float = Field(default=600.0, gt=0)
    heartbeat_s: float = Field(default=15.0, ge=0)
    """After so long a silence a client that waits for a stream gets a sign of life; 0 is never."""
    prefill_tokens_per_s: float = Field(default=2000.0, gt=0)

    excerpts: bool = False
    """Whether a tenant's own records may quote what it sent, where a prefix broke."""
    record_stream: bool = False
    """Also write each request's record to a stream in Redis, without contents."""
    access_log: str | None = None
    """A file's path, or `-` for stderr: one line of JSON for each request."""

    max_body_bytes: int = Field(default=32 * 2**20, gt=0)
    client_timeout_s: float = Field(default=30.0, gt=0)
    """For a client to send its head, and its body (plus a second for each 16 KiB); and to take what is sent to it."""
    max_streams: int = Field(default=4096, gt=0)
    """Requests under way at once; beyond it the answer is 503."""
    max_streams_per_key: int | None = Field(default=None, gt=0)
    """The same for each key, with 429; where no keys are asked for, for each tenant."""
    cors_origins: tuple[str, ...] = ()
    """Web pages from these origins may use the gateway; `*` is any."""
    drain_s: int = Field(default=2, ge=0)
    """How long open streams may go on after SIGTERM."""

    @field_validator("upstreams")
    @classmethod
    def _base_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return upstream_bases(urls)

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, url: str | None) -> str | None:
        return None if url is None else redis_base(url)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if complaint := _misfit(self):
            raise ValueError(complaint)
        return self

    def all_pools(self) -> tuple[PoolConfig, ...]:
        """With the one that `upstreams` make."""
        given = (PoolConfig(name=DEFAULT_POOL, upstreams=self.upstreams),) if self.upstreams else ()
        return given + self.pools

    def fallback(self) -> str:
        """The pool of requests that fit no route."""
        return self.default_pool or (DEFAULT_POOL if self.upstreams else self.pools[0].name)


def _misfit(config: GatewayConfig) -> str | None:
    """What is wrong between settings that are right each by itself, with the dotted path of one of them."""
    if not config.upstreams and not config.pools:
        return "there is no upstream: give --upstream URL, or a [[pool]] in a file for --config"
    names = Counter(pool.name for pool in config.all_pools())
    urls = Counter(url for pool in config.all_pools() for url in pool.upstreams)
    known = ", ".join(names)
    if twice := next((name for name, count in names.items() if count > 1), None):
        hint = "; `upstreams` make that pool" if twice == DEFAULT_POOL and config.upstreams else ""
        return f"pool: there are two named {twice!r}{hint}"
    if url := next((url for url, count in urls.items() if count > 1), None):
        return f"pool: the upstream {url} is in two pools, and may be in one"
    if config.record_stream and config.redis_url is None:
        return "record_stream: there is no Redis to write to: set `redis_url`"
    if config.default_pool is not None and config.default_pool not in names:
        return f"default_pool: there is no pool {config.default_pool!r}, but {known}"
    if config.default_pool is None and not config.upstreams and len(names) > 1:
        return f"default_pool: say which pool takes requests that fit no route: {known}"
    return _misfit_of_routes(config, known)


def _misfit_of_routes(config: GatewayConfig, known: str) -> str | None:
    names = {pool.name for pool in config.all_pools()}
    for index, rule in enumerate(config.routes):
        if absent := next((name for name in rule.pools if name not in names), None):
            return f"route[{index}].pools: there is no pool {absent!r}, but {known}"
        if not any(rule.takes(pool.name, pool.labels) for pool in config.all_pools()):
            return f"route[{index}].labels: no pool carries them"
        if (rule.key or rule.tenant) and config.keys is None:
            word = "key" if rule.key else "tenant"
            return f"route[{index}].{word}: never fits, as no keys are asked for: set `keys`"
    return None
