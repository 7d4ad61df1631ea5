"""All pools and the rules that lead to them, as the configuration and the name service have them now.

A replica that stays stays the same object: its load, breaker, drain and epoch outlive a new configuration.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from gateway.config import GatewayConfig
from gateway.config_pools import PolicyName, PoolConfig
from gateway.placement.base import Placement
from gateway.placement.health import Health
from gateway.placement.replica import Duty, Replica, Terms, Want
from gateway.routing.facts import Facts
from gateway.routing.pool import ReplicaPool
from gateway.routing.rules import Route, Router

MakePlacement = Callable[[PoolConfig, GatewayConfig], Placement]


class Pools:
    def __init__(
        self,
        config: GatewayConfig,
        health: Health,
        make_placement: MakePlacement,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.replicas: list[Replica] = []
        """Of all pools; one list, changed in place."""
        self.config = config
        self._health = health
        self._make_placement = make_placement
        self._environment = environment
        self._pools: dict[str, ReplicaPool] = {}
        self._policies: dict[str, tuple[PolicyName, float]] = {}
        """What each pool's placement is made of; while that is the same, what the placement has learned is kept."""
        self.apply(config)

    def __iter__(self) -> Iterator[ReplicaPool]:
        return iter(self._pools.values())

    def apply(self, config: GatewayConfig) -> None:
        """Take over a configuration, which may be the same. Requests under way and those that wait notice nothing."""
        self.config = config
        wanted = {pool.name: pool for pool in config.all_pools()}
        left = [pool for name, pool in self._pools.items() if name not in wanted]
        for pool in left:
            pool.members = {}
        self._pools = {name: self._pool(pool) for name, pool in wanted.items()}
        self._router = _router(config)
        for name, pool_config in wanted.items():
            urls = pool_config.upstreams or tuple(self._pools[name].members)
            self._set_members(name, urls)
        self._members_changed()
        for pool in left:
            pool.line.move()  # whoever waits there looks for another one

    def found(self, name: str, urls: Iterable[str]) -> None:
        """What the name service says of a pool."""
        if name in self._pools:
            self._set_members(name, urls)
            self._members_changed()

    def route(self, facts: Facts) -> Route:
        return self._router.route(facts)

    def open_to(self, route: Route, want: Want) -> ReplicaPool | None:
        """The first of a route's pools that can take the request. One whose breakers are all open comes last."""
        pools = [self._pools[name] for name in route.pools]
        able = (pool for pool in pools if pool.admits(want))
        return next(able, None) or next((pool for pool in pools if pool.candidates(want)), None)

    def members(self, route: Route) -> list[Replica]:
        return [replica for name in route.pools for replica in self._pools[name].members.values()]

    def shortage(self, route: Route) -> str:
        """Why no replica of the route can take a request, in words."""
        counts = Counter(_standing(replica) for replica in self.members(route))
        states = ", ".join(f"{count} {standing}" for standing, count in counts.items())
        return f"pool {' and '.join(route.pools)}: {states or 'no replicas'}"

    def move(self) -> None:
        """A replica may have come or changed: let those in who waited for it."""
        for pool in self._pools.values():
            pool.line.move()

    def _pool(self, config: PoolConfig) -> ReplicaPool:
        policy = (config.policy, self.config.prefill_tokens_per_s)
        pool = self._pools.get(config.name)
        if pool is None:
            pool = ReplicaPool(config, self._make_placement(config, self.config), self.config.queue.length)
        elif policy != self._policies[config.name]:
            pool.placement = self._make_placement(config, self.config)
        pool.config = config
        pool.line.queue.limit = self.config.queue.length
        self._policies[config.name] = policy
        return pool

    def _set_members(self, name: str, urls: Iterable[str]) -> None:
        known = {replica.url: replica for replica in self.replicas}
        pool = self._pools[name]
        terms = self._terms(pool.config)
        members = {url: known.get(url) or Replica(url) for url in urls}
        for replica in members.values():
            replica.terms = terms
            replica.breaker.settings = self.config.breaker
        pool.members = members

    def _members_changed(self) -> None:
        everyone = {url: replica for pool in self for url, replica in pool.members.items()}
        self.replicas[:] = everyone.values()
        self._health.follow(self.replicas)
        self.move()

    def _terms(self, config: PoolConfig) -> Terms:
        limit = config.max_in_flight
        return Terms(
            kind=config.kind,
            credential=self._environment.get(config.api_key_env) if config.api_key_env else None,
            max_in_flight=self.config.queue.max_in_flight if limit is None else limit,
        )


def _standing(replica: Replica) -> str:
    return replica.duty.value if replica.duty is Duty.DRAINING else replica.state.value


def _router(config: GatewayConfig) -> Router:
    pools = config.all_pools()
    weights = {pool.name: pool.weight for pool in pools}
    return Router(config.routes, config.fallback(), weights, {pool.name: pool.labels for pool in pools})
