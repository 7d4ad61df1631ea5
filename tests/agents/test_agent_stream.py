"""Every way that servers are known to stream a tool call is the same turn."""

from __future__ import annotations

import pytest

from agents.stream import Accumulator, cached_tokens, count


def part(index=None, identity=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": identity, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def feed(*deltas, finish="tool_calls"):
    heard = Accumulator()
    for delta in deltas:
        heard.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": ""}]})
    heard.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return heard


def calls(*parts):
    heard = feed(*({"tool_calls": [each]} for each in parts))
    return [(call.id, call.name, call.arguments) for call in heard.calls(3)]


TWO = [("a", "f", '{"x": 1}'), ("b", "g", "{}")]


@pytest.mark.parametrize(
    "parts",
    [
        [part(0, "a", "f", ""), part(0, arguments='{"x":'), part(0, arguments=" 1}"), part(1, "b", "g", "{}")],
        [part(0, "a", "f", '{"x":'), part(1, "b", "g", "{}"), part(0, arguments=" 1}")],
        [part(0, "a", "f", '{"x":'), part(0, "a", arguments=" 1}"), part(1, "b", "g", "{}")],
        [part(None, "a", "f", '{"x":'), part(arguments=" 1}"), part(None, "b", "g", "{}")],
        [part(0, "a", "f", '{"x": 1}'), part(0, "b", "g", "{}")],
        [part(0, "a", "f", {"x": 1}), part(1, "b", "g", {})],
    ],
    ids=["plain", "interleaved", "id-repeated", "no-index", "same-index", "object-arguments"],
)
def test_two_calls_however_they_are_streamed(parts):
    assert calls(*parts) == TWO


def test_a_call_without_an_id_gets_a_stable_one():
    assert calls(part(0, None, "f", "{}"), part(1, None, "g", "{}")) == [
        ("call_3_0", "f", "{}"),
        ("call_3_1", "g", "{}"),
    ]


def test_arguments_stay_as_they_came():
    text = '{ "x" :1,\n"x":2 , "é": "\\u00e9"}  '
    message = feed(
        {"tool_calls": [part(0, "a", "f", text[:7])]}, {"tool_calls": [part(0, arguments=text[7:])]}
    ).message(1)
    assert message["tool_calls"][0]["function"]["arguments"] == text
    assert message["content"] is None


def test_text_and_reasoning_are_kept_apart_and_whole():
    heard = feed({"reasoning_content": " hm"}, {"reasoning": "\n"}, {"content": "a "}, {"content": " b"}, finish="stop")
    assert heard.message(1) == {"role": "assistant", "content": "a  b", "reasoning_content": " hm\n"}
    assert heard.finish_reason == "stop"


def test_an_empty_finish_reason_is_none():
    heard = Accumulator()
    heard.feed({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]})
    assert heard.finish_reason is None


def test_usage_on_every_chunk_counts_once_and_null_is_ignored():
    heard = Accumulator()
    for number in (1, 2):
        heard.feed({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": number}})
    heard.feed({"choices": [], "usage": None})
    assert heard.usage["completion_tokens"] == 2


def test_only_what_was_generated_counts_as_the_first_token():
    heard = Accumulator()
    assert not heard.feed({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    assert heard.feed({"choices": [{"delta": {"content": "a"}}]})


def test_cached_tokens_are_unknown_unless_reported():
    assert cached_tokens({"prompt_tokens_details": {"cached_tokens": 0}}) == 0
    assert cached_tokens({"prompt_tokens_details": None}) is None
    assert cached_tokens({}) is None


def test_counts_that_are_no_numbers_are_unknown():
    assert count({"prompt_tokens": "12"}, "prompt_tokens") is None
    assert cached_tokens({"prompt_tokens_details": {"cached_tokens": "3"}}) is None
