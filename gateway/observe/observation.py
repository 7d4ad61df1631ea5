"""Each request from its head to its end, whatever end: the record, the metrics and the trace of it.

The relay says what happens, in this order: `begin`, `asked`, `opened`, `counted`, `end`. A request may end after any
of them, and `end` is always called.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence

from gateway.observe.cache_header import REQUEST_NAME, cache_header
from gateway.observe.explainer import Explained, Explainer
from gateway.observe.metrics import Metrics
from gateway.observe.records import Outcome, Placed, Records, RequestRecord
from gateway.observe.text import printable
from gateway.observe.tracing import RawHeaders, Tracer
from gateway.proxy.plan import Plan
from gateway.proxy.usage import Usage

CLIENT_GONE = "client_gone"
CLIENT_GONE_STATUS = 499
INTERNAL_ERROR = "internal_error"

Sink = Callable[[RequestRecord], object]


class Observations:
    """What all requests share. `sinks` get each record at its end, and neither fail nor wait."""

    def __init__(
        self, explainer: Explainer, records: Records, metrics: Metrics, tracer: Tracer, sinks: Sequence[Sink] = ()
    ) -> None:
        self.explainer = explainer
        self.records = records
        self.metrics = metrics
        self.tracer = tracer
        self.sinks = sinks

    async def aclose(self) -> None:
        await asyncio.to_thread(self.tracer.close)

    def begin(self, route: str, headers: RawHeaders) -> Observation:
        return Observation(self, route, headers)


class Observation:
    def __init__(self, shared: Observations, route: str, headers: RawHeaders) -> None:
        self.since = time.monotonic()
        self.record = RequestRecord(id=f"req_{secrets.token_hex(8)}", time=time.time(), route=route)
        self._shared = shared
        self._span = shared.tracer.begin(self.record, headers)
        self._first_byte: float | None = None
        self._explained: Explained | None = None
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._tpot_s: float | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """For every answer to the client: the id by which `GET /requests/{id}` tells the rest."""
        return [(REQUEST_NAME, self.record.id.encode())]

    def to_upstream(self, headers: RawHeaders) -> RawHeaders:
        """With the trace's context in them."""
        return self._span.inject(headers)

    def asked(self, plan: Plan) -> None:
        """The request has been let in and read; from now on its tenant can see it."""
        record = self.record
        record.tenant, record.session = plan.tenant, plan.session
        record.lineage = plan.lineage(None)
        record.model = printable(plan.model)
        record.prompt_estimate = plan.view.tokens
        self._shared.records.add(record)

    def opened(self, plan: Plan, placed: Placed, lineage: str, epoch: str, status: int) -> None:
        """An answer's first byte is here."""
        record, metrics = self.record, self._shared.metrics
        self._first_byte = time.monotonic()
        record.placed, record.lineage = placed, lineage
        self._explained = self._shared.explainer.answered(record, plan, epoch, succeeded=status < 400)
        metrics.ttft.labels(record.route).observe(self._first_byte - self.since)
        metrics.queue.observe(placed.queued_s)
        if record.broken:
            metrics.breaks.labels(record.broken.kind.value).inc()
            metrics.lost_tokens.labels(record.broken.kind.value).inc(record.lost_tokens)

    def cache_headers(self) -> list[tuple[bytes, bytes]]:
        return [cache_header(self.record)] if self.record.placed else []

    def counted(self, usage: Usage | None, finish: str | None, *, stream: bool) -> None:
        """The answer is whole."""
        record, metrics = self.record, self._shared.metrics
        assert record.placed is not None
        assert self._first_byte is not None
        assert self._explained is not None
        self._finish = finish
        if usage is None:
            return
        self._usage = usage
        if stream and (usage.completion_tokens or 0) > 1:
            self._tpot_s = (time.monotonic() - self._first_byte) / ((usage.completion_tokens or 0) - 1)
            metrics.tpot.labels(record.route).observe(self._tpot_s)
        metrics.count_tokens(record.route, record.placed.replica, usage)
        record.gap = self._shared.explainer.counted(self._explained, usage.prompt_tokens, usage.cached_tokens)
        if record.gap:
            metrics.gaps.labels(record.gap.cause.value).inc()
            metrics.missed_tokens.labels(record.gap.cause.value).inc(record.gap.tokens)

    def end(self, status: int | None, error: str | None) -> None:
        """`status`: of the answer as far as there was one. `error` is a code."""
        record, shared = self.record, self._shared
        if status is None:
            status = CLIENT_GONE_STATUS if error == CLIENT_GONE else 500
        usage = self._usage or Usage(None, None)
        record.outcome = Outcome(
            status=status,
            total_ms=_ms(time.monotonic() - self.since),
            error=error,
            ttft_ms=None if self._first_byte is None else _ms(self._first_byte - self.since),
            tpot_ms=None if self._tpot_s is None else _ms(self._tpot_s),
            finish=self._finish,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        )
        shared.metrics.requests.labels(record.route, str(status)).inc()
        if error == CLIENT_GONE:
            shared.metrics.disconnects.labels(record.route).inc()
        elif error:
            shared.metrics.errors.labels(record.route, error).inc()
        self._span.end(record)
        for sink in shared.sinks:
            sink(record)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
