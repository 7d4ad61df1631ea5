"""Prometheus metrics, in a registry of their own so that several gateways can live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.affinity.base import LookupResult
from gateway.affinity.bindings import BindingsMode
from gateway.placement.replica import Replica, ReplicaState

TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ADDED_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        name = "sapwood_gateway"
        self.requests = self._counter(f"{name}_requests", "Answered requests.", "route", "status")
        self.disconnects = self._counter(f"{name}_client_disconnects", "Clients that left early.", "route")
        self.failovers = self._counter(f"{name}_failovers", "Requests taken from a replica.", "replica")
        self.lookups = self._counter(f"{name}_binding_lookups", "Look-ups of bindings.", "result")
        self.decisions = self._counter(f"{name}_placements", "Placements by reason.", "reason")
        self.retentions = self._counter(f"{name}_retentions", "Prefixes kept while a tool runs.", "outcome")
        self.prompt_tokens = self._counter(f"{name}_prompt_tokens", "As replicas report.", "replica")
        self.cached_tokens = self._counter(f"{name}_cached_tokens", "As replicas report.", "replica")
        self.ttft = self._histogram(f"{name}_ttft_seconds", "Request head to first byte.", TTFT_BUCKETS)
        self.added = self._histogram(
            f"{name}_added_seconds", "Whole body read to request sent upstream.", ADDED_BUCKETS
        )
        self._in_flight = self._gauge(f"{name}_in_flight", "Requests under way.", "replica")
        self._up = self._gauge(f"{name}_replica_up", "1 if healthy.", "replica")
        self._shared = Gauge(f"{name}_bindings_shared", "1 if Redis answers.", registry=self._registry)
        for result in LookupResult:
            self.lookups.labels(result.value)

    def render(self, replicas: list[Replica], mode: BindingsMode) -> bytes:
        """The exposition text; gauges are read from their owners at this moment."""
        for replica in replicas:
            self._in_flight.labels(replica.url).set(replica.load.in_flight)
            self._up.labels(replica.url).set(replica.state is ReplicaState.HEALTHY)
        self._shared.set(mode is BindingsMode.SHARED)
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)
