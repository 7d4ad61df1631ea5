"""Traces as the gateway makes them, whoever records them. Without a recorder a client's context passes unchanged."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.observe.records import RequestRecord

RawHeaders = Sequence[tuple[bytes, bytes]]
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

log = logging.getLogger("sapwood.gateway")


class Span(Protocol):
    def inject(self, headers: RawHeaders) -> RawHeaders:
        """A request's headers on its way upstream, so that the upstream's spans become children of this one."""
        ...

    def end(self, record: RequestRecord) -> None: ...


class Tracer(Protocol):
    def begin(self, record: RequestRecord, headers: RawHeaders) -> Span:
        """A span for the request, below the one that its headers name."""
        ...

    def close(self) -> None:
        """Hand out what has been recorded. May take a second or two."""
        ...


class NoTracer:
    """Records nothing; it is its own span."""

    def begin(self, record: RequestRecord, headers: RawHeaders) -> Span:
        return self

    def inject(self, headers: RawHeaders) -> RawHeaders:
        return headers

    def end(self, record: RequestRecord) -> None: ...

    def close(self) -> None: ...


def open_tracer(environment: Mapping[str, str] = os.environ) -> Tracer:
    """By OpenTelemetry's own variables: traces are made where an endpoint for them is set."""
    endpoint = next((name for name in ENDPOINTS if environment.get(name)), None)
    if endpoint is None or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NoTracer()
    try:
        from gateway.observe.otel import OtelTracer, exporting_provider
    except ImportError as error:
        log.warning("%s is set, but there are no traces: install 'sapwood[otel]' (%s)", endpoint, error)
        return NoTracer()
    return OtelTracer(exporting_provider())
