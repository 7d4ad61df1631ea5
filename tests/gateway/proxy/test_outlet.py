"""Signs of life and errors find a place in a stream wherever it stands."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.translate import Failure
from gateway.proxy.events import EventCutter, as_object
from gateway.proxy.outlet import Verbatim, failure_in

EVENTS = [b'data: {"a": 1}', b"event: x\ndata: 2", b": comment", "data: größe".encode(), b"data: a\ndata: b", b"data:"]
DATA = [b'{"a": 1}', b"2", "größe".encode(), b"a\nb", b""]


@given(st.sampled_from([b"\n", b"\r\n"]), st.sets(st.integers(1, 90)))
def test_events_are_the_same_however_the_stream_is_cut(ending, cuts):
    raw = b"".join(event.replace(b"\n", ending) + 2 * ending for event in EVENTS)
    cutter, found = EventCutter(), []
    ends = [*sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    for start, end in zip([0, *ends], ends, strict=False):
        found += cutter.feed(raw[start:end])
    assert [*found, *cutter.end()] == DATA


def test_the_end_of_a_stream_completes_its_last_event():
    cutter = EventCutter()
    assert list(cutter.feed(b"data: 1\n\ndata: 2")) == [b"1"]
    assert list(cutter.end()) == [b"2"]


def test_only_objects_are_chunks():
    assert as_object(b'{"a": 1}') == {"a": 1}
    for data in (b"[DONE]", b"[1]", b"\xff", b"", b"[" * 100_000):
        assert as_object(data) is None


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=6), st.sampled_from([b"\n\n", b"\r\n\r\n", b"x"]))
def test_a_sign_of_life_never_cuts_an_event(pieces, last):
    outlet = Verbatim()
    for piece in [*pieces, last]:
        assert outlet.feed(piece) == piece
    so_far = b"".join([*pieces, last]).replace(b"\r\n", b"\n")
    if last != b"x":
        assert outlet.heartbeat() == b": keep-alive\n\n"
    elif not so_far.endswith(b"\n\n"):
        assert outlet.heartbeat() == b""


def test_an_error_within_an_event_ends_that_first():
    outlet = Verbatim()
    outlet.feed(b"data: {")
    said = outlet.fail(Failure(502, "gone", "upstream_died"))
    assert said.startswith(b"\n\ndata: ")
    assert json.loads(said.split(b"data: ")[1])["error"]["code"] == "upstream_died"


def test_what_upstreams_report():
    openai = {"error": {"message": "too long", "code": "context_length_exceeded", "param": "messages"}}
    assert failure_in(400, json.dumps(openai).encode()) == Failure(
        400, "too long", "context_length_exceeded", "messages"
    )
    vllm = {"message": "This model's maximum context length is 8 tokens.", "code": 400, "object": "error"}
    assert failure_in(400, json.dumps(vllm).encode()).code == "context_length_exceeded"
    assert failure_in(500, b'{"error": "boom"}') == Failure(500, "boom", "upstream_error")
    assert failure_in(502, b"<html>").message == "<html>"
    assert failure_in(502, b"").message == "The upstream gave no reason."
