"""The gateway's settings: one frozen object, checked once, handed down from the composition root."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

REDIS_SCHEMES = ("redis", "rediss", "unix", "valkey", "valkeys")


class GatewayConfig(BaseModel):
    """Every duration is in seconds, every size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstreams: tuple[str, ...] = Field(min_length=1)
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

    max_body_bytes: int = Field(default=32 * 2**20, gt=0)
    drain_s: int = Field(default=2, ge=0)
    """How long open streams may go on after SIGTERM."""

    @field_validator("upstreams")
    @classmethod
    def _base_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        bases = tuple(upstream_base(url) for url in urls)
        if len(set(bases)) < len(bases):
            raise ValueError("an upstream is given twice")
        return bases

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, url: str | None) -> str | None:
        return None if url is None else redis_base(url)


def upstream_base(url: str) -> str:
    """`http://host:port[/path]` without a trailing slash or `/v1`, so that pasted base URLs work too."""
    parts = _split(url, "upstream")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"upstream {url!r} is no http:// or https:// URL")
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"upstream {url!r} may hold neither a query nor credentials")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def redis_base(url: str) -> str:
    """A URL that redis-py takes; `valkey://` is the same protocol by another name."""
    parts = _split(url, "Redis URL")
    if parts.scheme not in REDIS_SCHEMES or not (parts.hostname or parts.path):
        raise ValueError(f"Redis URL {_without_password(url)!r} is not of the form redis://HOST:PORT/DB")
    return url.replace("valkey", "redis", 1) if parts.scheme.startswith("valkey") else url


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError as error:
        raise ValueError(f"{what} {_without_password(url)!r}: {error}") from None
    return parts


def _without_password(url: str) -> str:
    return url.rsplit("@", 1)[-1]
