"""The parts that observe requests, as the configuration wants them."""

from __future__ import annotations

from gateway.affinity.link import StoreLink
from gateway.config import GatewayConfig
from gateway.observe.access_log import AccessLog
from gateway.observe.explainer import Explainer
from gateway.observe.memory import Memory
from gateway.observe.metrics import Metrics
from gateway.observe.observation import Observations, Sink
from gateway.observe.record_stream import RecordStream
from gateway.observe.records import Records
from gateway.observe.tracing import open_tracer


def observations(config: GatewayConfig, metrics: Metrics, link: StoreLink | None) -> Observations:
    """StartError for an access log that can't be written."""
    sinks: list[Sink] = []
    if config.access_log:
        sinks.append(AccessLog(config.access_log))
    if config.record_stream and link:
        sinks.append(RecordStream(link))
    explainer = Explainer(Memory(), excerpts=config.excerpts)
    return Observations(explainer, Records(), metrics, open_tracer(), sinks)
