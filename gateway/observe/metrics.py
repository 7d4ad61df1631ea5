"""Prometheus metrics, in a registry of their own so that several gateways can live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

from gateway.affinity.base import LookupResult
from gateway.affinity.bindings import BindingsMode
from gateway.placement.replica import Replica, ReplicaState
from gateway.proxy.usage import Usage

TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ADDED_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1)
TPOT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.5, 1, 2)
QUEUE_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60)
REDIS_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.1, 0.5, 1)
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
        self.errors = self._counter(f"{name}_errors", "Requests that the gateway could not end well.", "route", "code")
        self.breaks = self._counter(f"{name}_prefix_breaks", "Prompts unlike the one before.", "class")
        self.lost_tokens = self._counter(f"{name}_lost_tokens", "Estimated, behind prefix breaks.", "class")
        self.gaps = self._counter(f"{name}_cache_gaps", "Far fewer cached tokens than expected.", "cause")
        self.missed_tokens = self._counter(f"{name}_missed_tokens", "Expected in a cache, and computed.", "cause")
        self.prompt_tokens = self._counter(f"{name}_prompt_tokens", "As replicas report.", "route", "replica")
        self.cached_tokens = self._counter(f"{name}_cached_tokens", "As replicas report.", "route", "replica")
        self.computed_tokens = self._counter(f"{name}_computed_tokens", "Prompt less cached.", "route", "replica")
        self.completion_tokens = self._counter(f"{name}_completion_tokens", "As replicas report.", "route", "replica")
        self.ttft = self._histogram(f"{name}_ttft_seconds", "Request head to first byte.", TTFT_BUCKETS, "route")
        self.tpot = self._histogram(f"{name}_tpot_seconds", "Each token after the first.", TPOT_BUCKETS, "route")
        self.queue = self._histogram(f"{name}_queue_seconds", "Wait for a replica with room.", QUEUE_BUCKETS)
        self.redis = self._histogram(f"{name}_redis_seconds", "Calls of Redis that it answered.", REDIS_BUCKETS)
        self.added = self._histogram(
            f"{name}_added_seconds", "Whole body read to request sent upstream.", ADDED_BUCKETS
        )
        self.streams = Gauge(f"{name}_streams", "Requests let in and not yet ended.", registry=self._registry)
        self._in_flight = self._gauge(f"{name}_in_flight", "Requests under way.", "replica")
        self._up = self._gauge(f"{name}_replica_up", "1 if healthy.", "replica")
        self._shared = Gauge(f"{name}_bindings_shared", "1 if Redis answers.", registry=self._registry)
        for result in LookupResult:
            self.lookups.labels(result.value)

    def count_tokens(self, route: str, replica: str, usage: Usage) -> None:
        """Nothing is invented: what the replica did not say is not counted."""
        told = {
            self.prompt_tokens: usage.prompt_tokens,
            self.cached_tokens: usage.cached_tokens,
            self.computed_tokens: usage.computed_tokens,
            self.completion_tokens: usage.completion_tokens,
        }
        for counter, tokens in told.items():
            if tokens is not None:
                counter.labels(route, replica).inc(tokens)

    def register(self, collector: Collector) -> None:
        """Gauges of somebody else's."""
        self._registry.register(collector)

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

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)
