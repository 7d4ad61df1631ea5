"""Prometheus metrics of one engine, read from its counters when they are scraped."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.core import Engine
from engine.prompt.transcript import Transcript

TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """One registry an engine, so that several engines fit into one process."""

    def __init__(self, engine: Engine, transcript: Transcript) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(engine, transcript))
        self.ttft = Histogram(
            "sapwood_engine_ttft_seconds",
            "Time from the arrival of a request to its first token",
            registry=self.registry,
            buckets=TTFT_BUCKETS,
        )
        self.ahead = Counter(
            "sapwood_engine_ahead_tokens",
            "Tokens computed for the next prompt of a conversation before it came",
            registry=self.registry,
        )


class EngineCollector(Collector):
    def __init__(self, engine: Engine, transcript: Transcript) -> None:
        self.engine = engine
        self.transcript = transcript

    def collect(self) -> Iterable[Metric]:
        engine, counters = self.engine, self.engine.counters
        cache = engine.cache.stats()
        yield _gauge("requests_running", "Requests in the current batch", len(engine.scheduler.running))
        yield _gauge("requests_waiting", "Requests that wait for admission", len(engine.scheduler.waiting))
        yield _gauge("kv_slots", "Capacity of the KV pool in tokens", cache.capacity)
        yield _gauge("kv_slots_free", "KV slots that hold nothing", cache.free)
        yield _gauge("kv_tokens_cached", "Tokens in the radix tree", cache.cached)
        yield _gauge("kv_tokens_leased", "Tokens of the tree that running requests hold", cache.leased)
        yield _gauge("cache_nodes", "Nodes of the radix tree", cache.nodes)
        yield _counter("steps", "Engine steps", counters.steps)
        yield _counter("step_seconds", "Time spent in steps", counters.step_seconds)
        yield _counter("prompt_tokens", "Tokens of admitted prompts", counters.prompt_tokens)
        yield _counter("cached_tokens", "Prompt tokens that were served from the cache", counters.cached_tokens)
        yield _counter("computed_tokens", "Tokens whose KV was computed", counters.computed_tokens)
        yield _counter("generated_tokens", "Tokens sampled", counters.generated_tokens)
        yield _counter("drafted_tokens", "Tokens drafted and verified", counters.drafted_tokens)
        yield _counter("forced_tokens", "Tokens that a grammar left no choice about", counters.forced_tokens)
        yield _counter("accepted_tokens", "Drafted tokens that were right", counters.accepted_tokens)
        yield _counter("embedded_tokens", "Tokens of embedded texts", engine.embeddings.tokens)
        yield _counter("evicted_tokens", "Tokens evicted from the tree", cache.evicted_tokens)
        yield _counter(
            "retractions", "Requests that gave their memory back and wait again", engine.scheduler.retractions
        )
        turns = CounterMetricFamily("sapwood_engine_turns", "Prompts by how history was encoded", labels=["history"])
        for history, count in list(self.transcript.counts.items()):
            turns.add_metric([history.value], count)
        yield turns
        finished = CounterMetricFamily("sapwood_engine_requests", "Ended requests by reason", labels=["finish"])
        for finish, count in list(counters.finished.items()):
            finished.add_metric([finish], count)
        yield finished


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"sapwood_engine_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"sapwood_engine_{name}", text, value=value)
