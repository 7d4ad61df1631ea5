"""A pool in the configuration: replicas of one kind that are chosen among by one policy."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gateway.config_urls import dns_name, upstream_bases

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEFAULT_POOL = "default"


class UpstreamKind(StrEnum):
    OPENAI = "openai"
    """Any OpenAI server; what more it can do is learned from its `/info`."""
    SAPWOOD = "sapwood"
    SGLANG = "sglang"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"


class PolicyName(StrEnum):
    SECONDS = "seconds"
    SESSION = "session"
    LEAST_LOADED = "least-loaded"
    ROUND_ROBIN = "round-robin"


class PoolConfig(BaseModel):
    """A `[[pool]]`: a list of `upstreams`, or one replica for each address of a name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: UpstreamKind = UpstreamKind.OPENAI
    upstreams: tuple[str, ...] = ()
    dns: str | None = None
    policy: PolicyName = PolicyName.SECONDS
    weight: float = Field(default=1.0, ge=0, lt=math.inf)
    """Its share in routes that name several pools without weights."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    api_key_env: str | None = None
    """The environment variable with the upstream's own credential; it takes the place of the client's."""
    max_in_flight: int | None = Field(default=None, ge=0)
    """Instead of the queue's."""

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: letters, digits, dots, dashes and underscores, at most 64")
        return name

    @field_validator("upstreams")
    @classmethod
    def _base_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return upstream_bases(urls)

    @field_validator("dns")
    @classmethod
    def _address(cls, told: str | None) -> str | None:
        if told is not None:
            dns_name(told)
        return told

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.upstreams) == (self.dns is not None):
            raise ValueError("a pool has either upstreams, a list of URLs, or dns, a HOST:PORT")
        return self


class QueueSettings(BaseModel):
    """The `[queue]` of the configuration: what happens when all replicas of a pool are full."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_in_flight: int = Field(default=0, ge=0)
    """Requests that one replica runs for this gateway; 0 is without limit, and then nobody queues."""
    length: int = Field(default=1024, ge=0)
    """How many may wait for each pool."""
    timeout_s: float = Field(default=30.0, gt=0)
    """How long, unless the client says it."""
