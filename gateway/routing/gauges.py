"""Gauges of pools and replicas for `/metrics`, read from their owners when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.placement.breaker import BreakerState
from gateway.placement.queue import Priority
from gateway.placement.replica import Duty
from gateway.routing.pools import Pools

NAME = "sapwood_gateway"


class PoolGauges(Collector):
    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def collect(self) -> Iterable[GaugeMetricFamily]:
        waiting = GaugeMetricFamily(f"{NAME}_queue_waiting", "Wait for a replica.", labels=["pool", "priority"])
        length = GaugeMetricFamily(f"{NAME}_queue_length", "How many may wait.", labels=["pool"])
        breaker = GaugeMetricFamily(f"{NAME}_breaker_state", "1 for the state it is in.", labels=["replica", "state"])
        draining = GaugeMetricFamily(f"{NAME}_replica_draining", "1 while draining.", labels=["replica"])
        for pool in self._pools:
            length.add_metric([pool.config.name], pool.line.queue.limit)
            for priority in Priority:
                waiting.add_metric([pool.config.name, priority.value], pool.line.queue.waiting(priority))
        for replica in self._pools.replicas:
            draining.add_metric([replica.url], replica.duty is Duty.DRAINING)
            for state in BreakerState:
                breaker.add_metric([replica.url, state.value], replica.breaker.state is state)
        return waiting, length, breaker, draining
