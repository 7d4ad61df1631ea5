"""OpenTelemetry: one span for each request, in the client's trace, and the upstream below it."""

from __future__ import annotations

import builtins
import logging

import pytest

from gateway.observe.tracing import NoTracer, open_tracer

USER = [{"role": "user", "content": "x"}]
TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT = "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE}-{CLIENT}-01", "tracestate": "vendor=1"}


@pytest.fixture
def spans(monkeypatch):
    """Those of every gateway that is started afterwards."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from gateway.observe.otel import OtelTracer

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gateway.observe.assemble.open_tracer", lambda: OtelTracer(provider))
    return exporter.get_finished_spans


@pytest.mark.anyio
async def test_the_clients_trace_goes_on_to_the_upstream(engine, gateway, eventually, spans):
    upstream = await engine()
    front = await gateway(upstream)
    answer = await front.chat(USER, CONTEXT)
    [span] = await eventually(spans)
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == CLIENT
    assert upstream.seen[0].headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert upstream.seen[0].headers["tracestate"] == "vendor=1"
    assert span.name == "chat m"
    told = span.attributes
    assert told["sapwood.request.id"] == answer.headers["x-sapwood-request"]
    assert (told["http.route"], told["http.response.status_code"]) == ("/v1/chat/completions", 200)
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", "m")
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.cache_read.input_tokens"]) == (40, 0)
    assert (told["server.address"], told["server.port"]) == ("127.0.0.1", upstream.port)
    assert told["sapwood.turn"] == "first"
    assert span.status.is_unset


@pytest.mark.anyio
async def test_a_request_without_context_begins_a_trace(engine, gateway, eventually, spans):
    upstream = await engine()
    front = await gateway(upstream)
    await front.chat(USER)
    [span] = await eventually(spans)
    assert span.parent is None
    assert upstream.seen[0].headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


@pytest.mark.anyio
@pytest.mark.parametrize("context", ["", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" * 4000])
async def test_an_odd_context(engine, gateway, eventually, spans, context):
    front = await gateway(await engine())
    assert (await front.chat(USER, {"traceparent": context})).status_code == 200
    assert (await eventually(spans))[0].parent is None


@pytest.mark.anyio
async def test_a_failed_request(engine, gateway, eventually, spans):
    upstream = await engine()
    front = await gateway(upstream)
    await upstream.stop()
    assert (await front.chat(USER)).status_code == 503
    [span] = await eventually(spans)
    assert not span.status.is_ok
    assert span.attributes["error.type"] == "no_replica"


@pytest.mark.anyio
async def test_without_a_recorder_the_context_passes(engine, gateway, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    upstream = await engine()
    front = await gateway(upstream)
    await front.chat(USER, CONTEXT)
    assert CONTEXT.items() <= upstream.seen[0].headers.items()


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}],
)
def test_no_endpoint_no_traces(environment):
    assert isinstance(open_tracer(environment), NoTracer)


def test_without_the_extra_it_says_so(monkeypatch, caplog):
    whole = builtins.__import__

    def without(name, *rest):
        if name == "gateway.observe.otel":
            raise ImportError("No module named 'opentelemetry.sdk'")
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with caplog.at_level(logging.WARNING):
        tracer = open_tracer({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert isinstance(tracer, NoTracer)
    assert "sapwood[otel]" in caplog.text


def test_spans_reach_a_collector(monkeypatch):
    """The whole way: an exporter of the standard variables, and a server that takes what it sends."""
    pytest.importorskip("opentelemetry.exporter.otlp", reason="the extra `otel` is not installed")
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from gateway.observe.otel import OtelTracer, exporting_provider
    from gateway.observe.records import RequestRecord

    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
        tracer = OtelTracer(exporting_provider())
        record = RequestRecord("req_1", 1764566776.0, "/v1/messages", model="m")
        tracer.begin(record, []).end(record)
        tracer.close()
        server.shutdown()
        thread.join()
    [(path, body)] = got
    assert path == "/v1/traces"
    assert b"sapwood-gateway" in body
    assert b"chat m" in body
