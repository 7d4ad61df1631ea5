"""Usage from the side of the stream: wherever TCP cut it, and never invented."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.usage import STREAM_TAIL_BYTES, Usage, UsageTap


def sse(*events):
    return b"".join(b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\n\n" for e in events)


DELTA = {"choices": [{"delta": {"content": "größe 木"}}], "usage": None}
FINAL = {"choices": [], "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}
STREAM = sse(DELTA, FINAL) + b"data: [DONE]\n\n"


def tap_of(raw, content_type="text/event-stream; charset=utf-8", cuts=()):
    tap = UsageTap(content_type)
    ends = [*sorted(cuts), len(raw)]
    for start, end in zip([0, *ends], ends, strict=False):
        if raw[start:end]:
            tap.feed(raw[start:end])
    return tap


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_any_cut_of_the_stream(cuts):
    tap = tap_of(STREAM, cuts=cuts)
    assert tap.usage() == Usage(9, 0)


@given(st.integers(1, len(STREAM) - 1))
def test_a_stream_that_stops(end):
    assert tap_of(STREAM[:end]).usage() in (None, Usage(9, 0))


def test_a_long_stream_keeps_its_end_only():
    tap = tap_of(sse(DELTA) * 5000 + STREAM, cuts=range(1000, 300_000, 1000))
    assert tap.usage() == Usage(9, 0)
    assert tap._held < 2 * STREAM_TAIL_BYTES


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5}, Usage(5, None)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, Usage(5, None)),
        ({"prompt_tokens_details": {"cached_tokens": 3}}, Usage(None, 3)),
        ({"prompt_tokens": True, "prompt_tokens_details": {"cached_tokens": -1}}, Usage(None, None)),
        (None, None),
        ([], None),
    ],
)
def test_json_bodies(usage, expected):
    assert tap_of(json.dumps({"id": "x", "usage": usage}).encode(), "application/json").usage() == expected


def test_what_is_no_json_has_no_usage():
    assert tap_of(b"\xff{", "application/json").usage() is None
    assert tap_of(b"", "").usage() is None


ENDING = {"choices": [{"delta": {"content": 'say "finish_reason": "length"'}, "finish_reason": "tool_calls"}]}


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_the_finish_of_a_stream(cuts):
    assert tap_of(sse(DELTA, ENDING) + STREAM, cuts=cuts).finish() == "tool_calls"
    assert tap_of(STREAM, cuts=cuts).finish() is None


def test_the_finish_of_an_object():
    said = {"message": {"content": '"finish_reason":"x"'}, "finish_reason": None}
    assert tap_of(json.dumps({"choices": [said]}).encode(), "application/json").finish() is None
    said["finish_reason"] = "stop"
    assert tap_of(json.dumps({"choices": [said]}, indent=1).encode(), "application/json").finish() == "stop"
