"""Traces by OpenTelemetry: one server span for each request, in the trace that the client's `traceparent` names.

Attributes follow the semantic conventions for HTTP and for generative AI; what those have no name for begins with
`sapwood.`. Where to, how often and with which resource is said by the standard `OTEL_*` variables.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.observe.records import RequestRecord
from gateway.observe.tracing import RawHeaders, Span

SERVICE = "sapwood-gateway"
UNNAMED = "unknown_service"
CLOSE_S = 2.0
CONTEXT = frozenset({b"traceparent", b"tracestate"})
OPERATIONS = {
    "/v1/completions": "text_completion",
    "/v1/fim/completions": "text_completion",
    "/v1/embeddings": "embeddings",
    "/v1/messages/count_tokens": "count_tokens",
}
"""All other routes are chats."""

ERROR_TYPE = "error.type"

_propagator = TraceContextTextMapPropagator()


def exporting_provider() -> TracerProvider:
    """Sends spans over OTLP (HTTP, protobuf) from a thread of its own."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    told = Resource.create()
    if str(told.attributes.get(SERVICE_NAME, UNNAMED)).startswith(UNNAMED):
        told = told.merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(resource=told, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class OtelTracer:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("sapwood.gateway")

    def begin(self, record: RequestRecord, headers: RawHeaders) -> Span:
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in CONTEXT}
        span = self._tracer.start_span(
            f"{_operation(record)} {record.route}",
            context=_propagator.extract(carrier),
            kind=SpanKind.SERVER,
            start_time=int(record.time * 1e9),
        )
        return RecordedSpan(span)

    def close(self) -> None:
        """A collector that is away does not hold up the end for longer than this."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(CLOSE_S)


class RecordedSpan:
    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def inject(self, headers: RawHeaders) -> RawHeaders:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, set_span_in_context(self._span))
        passed = [(name, value) for name, value in headers if name not in CONTEXT]
        return [*passed, *((name.encode(), value.encode("latin-1", "replace")) for name, value in carrier.items())]

    def end(self, record: RequestRecord) -> None:
        span = self._span
        if span.is_recording():
            span.update_name(f"{_operation(record)} {record.model}".rstrip())
            told = attributes(record)
            span.set_attributes(told)
            if ERROR_TYPE in told:
                span.set_status(Status(StatusCode.ERROR))
        span.end()


def attributes(record: RequestRecord) -> dict[str, str | int | float | Sequence[str]]:
    """What is known; absent is what is not. Nothing of what was said."""
    told: dict[str, str | int | float | Sequence[str] | None] = {
        "http.request.method": "POST",
        "http.route": record.route,
        "gen_ai.operation.name": _operation(record),
        "gen_ai.request.model": record.model or None,
        "gen_ai.conversation.id": record.lineage or None,
        "sapwood.request.id": record.id,
        "sapwood.tenant": record.tenant or None,
        "sapwood.turn": record.turn.value if record.turn else None,
    }
    if placed := record.placed:
        address = urlsplit(placed.replica)
        told |= {
            "server.address": address.hostname,
            "server.port": address.port,
            "sapwood.replica.reason": placed.reason,
            "sapwood.replica.attempts": placed.attempts,
            "sapwood.cache.predicted_tokens": placed.predicted_tokens,
            "sapwood.queue.seconds": placed.queued_s,
        }
    if record.broken:
        told |= {"sapwood.break.class": record.broken.kind.value, "sapwood.break.lost_tokens": record.lost_tokens}
    if record.gap:
        told |= {"sapwood.gap.cause": record.gap.cause.value, "sapwood.gap.tokens": record.gap.tokens}
    if outcome := record.outcome:
        told |= {
            "http.response.status_code": outcome.status,
            ERROR_TYPE: outcome.error or (str(outcome.status) if outcome.status >= 500 else None),
            "gen_ai.response.finish_reasons": (outcome.finish,) if outcome.finish else None,
            "gen_ai.response.time_to_first_chunk": None if outcome.ttft_ms is None else outcome.ttft_ms / 1000,
            "gen_ai.usage.input_tokens": outcome.prompt_tokens,
            "gen_ai.usage.output_tokens": outcome.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": outcome.cached_tokens,
        }
    return {name: value for name, value in told.items() if value is not None}


def _operation(record: RequestRecord) -> str:
    return OPERATIONS.get(record.route, "chat")
