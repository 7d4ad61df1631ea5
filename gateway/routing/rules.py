"""Rules: which pools take a request. Pure; the first rule that a request fits decides, whatever comes after it.

Of a rule with several pools the weights decide, by a hash of the conversation: all its turns go to the same pool, and
a pool that is added or taken away moves only the conversations that it wins or had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gateway.placement.queue import Priority
from gateway.placement.rendezvous import rank
from gateway.rewrite.base import RuleName
from gateway.routing.facts import Facts

RANKS = 2.0**64


class Shape(StrEnum):
    SINGLE_TURN = "single_turn"
    """One message behind the system messages: no conversation to come back to yet."""
    LONG = "long"
    """A prompt of `min_tokens` or more."""
    BATCH = "batch"
    """The client says `x-sapwood-priority: batch`."""


class Rule(BaseModel):
    """A `[[route]]`. Whatever is given must hold; a rule that gives nothing takes every request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pools: Mapping[str, float | None] = Field(default_factory=dict)
    """Weights by pool; None is the pool's own. May be given as a list of names, or as one name."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Instead of `pools`: all that carry these labels."""
    model: str | None = None
    """A pattern with `*` and `?` for the whole name; case counts."""
    adapter: str | None = None
    """A pattern for what follows the colon of `base:adapter`; `*` is any adapter."""
    key: str | None = None
    tenant: str | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)
    shape: Shape | None = None
    min_tokens: int | None = Field(default=None, gt=0)
    tools: bool | None = None
    priority: Priority | None = None
    """How these requests queue, unless their client says it."""
    rewrite: tuple[RuleName, ...] = ()
    """What may be changed in these requests, so that their prefix holds."""

    @field_validator("pools", mode="before")
    @classmethod
    def _as_weights(cls, told: Any) -> Any:
        names = (told,) if isinstance(told, str) else told
        return dict.fromkeys(names) if isinstance(names, list | tuple) else told

    @field_validator("pools")
    @classmethod
    def _weights(cls, pools: Mapping[str, float | None]) -> Mapping[str, float | None]:
        if any(weight is not None and not 0 <= weight < math.inf for weight in pools.values()):
            raise ValueError("a weight is a number of 0 or more")
        return pools

    @field_validator("headers")
    @classmethod
    def _lowered(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {name.lower(): value for name, value in headers.items()}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.pools) == bool(self.labels):
            raise ValueError("a route has either pools, their names, or labels, which its pools carry")
        if self.shape is Shape.LONG and self.min_tokens is None:
            raise ValueError('shape = "long" needs min_tokens, the prompt length from which it holds')
        return self

    def takes(self, pool: str, labels: Mapping[str, str]) -> bool:
        """Whether a pool with these labels is among its pools."""
        return pool in self.pools or (bool(self.labels) and self.labels.items() <= labels.items())

    def fits(self, facts: Facts) -> bool:
        return all(self._tests(facts))

    def _tests(self, facts: Facts) -> Iterator[bool]:
        yield self.model is None or fnmatchcase(facts.model, self.model)
        yield self.adapter is None or (bool(facts.adapter) and fnmatchcase(facts.adapter, self.adapter))
        yield self.key is None or self.key == facts.key
        yield self.tenant is None or self.tenant == facts.tenant
        yield self.min_tokens is None or facts.tokens >= self.min_tokens
        yield self.tools is None or self.tools == facts.has_tools
        yield self.shape is not Shape.SINGLE_TURN or facts.turns <= 1
        yield self.shape is not Shape.BATCH or facts.priority is Priority.BATCH
        yield all(facts.headers.get(name) == value for name, value in self.headers.items())


@dataclass(frozen=True, slots=True)
class Route:
    pools: tuple[str, ...]
    """In the order in which they are asked: the next only where the one before has no replica to offer."""
    priority: Priority
    rewrite: tuple[RuleName, ...] = ()


@dataclass(frozen=True, slots=True)
class Router:
    rules: Sequence[Rule]
    default: str
    weights: Mapping[str, float]
    """The pools' own."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By pool."""

    def route(self, facts: Facts) -> Route:
        """GatewayError 400 if the request says its priority in words that are none."""
        rule = next((rule for rule in self.rules if rule.fits(facts)), None)
        if rule is None:
            return Route((self.default,), facts.priority or Priority.INTERACTIVE)
        pools = tuple(name for name in self.weights if rule.takes(name, self.labels.get(name, {})))
        if len(pools) > 1:
            pools = tuple(sorted(pools, key=lambda name: _distance(facts.sticky, name, self._weight(rule, name))))
        return Route(pools, facts.priority or rule.priority or Priority.INTERACTIVE, rule.rewrite)

    def _weight(self, rule: Rule, pool: str) -> float:
        own = rule.pools.get(pool)
        return self.weights[pool] if own is None else own


def _distance(key: str, pool: str, weight: float) -> float:
    """Weighted rendezvous: exponential draws, of which the smallest wins with its weight's share."""
    if weight <= 0:
        return math.inf
    return -math.log((rank(key, pool) + 1) / (RANKS + 1)) / weight
