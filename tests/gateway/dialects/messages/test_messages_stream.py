"""The stream of events: in Anthropic's order, and adding up to the whole answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.translate import Failure
from tests.gateway.dialects.messages.saying import (
    USAGE,
    accumulated,
    answer,
    answers,
    ask,
    call,
    checked,
    chunked,
    cuts,
    events,
    streamed,
    without_id,
)

WIRE_KEYS = (
    *("choices", "delta", "message", "finish_reason", "usage", "content", "reasoning_content", "tool_calls", "index"),
    *("id", "function", "name", "arguments", "prompt_tokens", "prompt_tokens_details", "text", "stop_reason"),
)

OMITTED = {"type": "adaptive", "display": "omitted"}


@settings(max_examples=60)
@given(answers(), cuts(), st.sampled_from([None, OMITTED]))
def test_a_stream_adds_up_to_the_whole(whole, cut, thinking):
    message = json.loads(ask(thinking=thinking).answer.whole(whole))
    told = streamed(ask(thinking=thinking, stream=True).answer, chunked(whole, cut))
    assert accumulated(told) == without_id(message)


@settings(max_examples=40)
@given(
    st.data(), st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), min_size=1), min_size=2, max_size=4)
)
def test_calls_that_come_interleaved_are_told_one_after_the_other(data, inputs):
    texts = [json.dumps(arguments) for arguments in inputs]
    deltas = [[{**call(n, ""), "index": n}] for n in range(len(texts))]
    left = {n: list(text) for n, text in enumerate(texts)}
    while left:
        number = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, 20))
        piece, left[number] = "".join(left[number][:size]), left[number][size:]
        deltas.append([{"index": number, "function": {"arguments": piece}}])
        left = {n: rest for n, rest in left.items() if rest}
    chunks = [{"choices": [{"delta": {"tool_calls": delta}}]} for delta in deltas]
    message = accumulated(streamed(ask(stream=True).answer, chunks))
    assert [block["input"] for block in message["content"]] == inputs
    assert [block["id"] for block in message["content"]] == [f"call_{n}" for n in range(len(texts))]
    assert message["stop_reason"] == "tool_use"


def test_what_is_ready_is_told_at_once():
    writer = ask(stream=True).answer
    first = events(writer.chunk({"choices": [{"delta": {"role": "assistant"}}]}))
    assert [name for name, _ in first] == ["message_start", "ping"]
    assert b'"text": "a"' in writer.chunk({"choices": [{"delta": {"content": "a"}}]})
    named = events(writer.chunk({"choices": [{"delta": {"tool_calls": [{**call(1, '{"a":'), "index": 0}]}}]}))
    assert [name for name, _ in named] == ["content_block_stop", "content_block_start", "content_block_delta"]
    more = events(
        writer.chunk({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}}]})
    )
    assert more[0][1]["delta"] == {"type": "input_json_delta", "partial_json": "1}"}
    held = writer.chunk({"choices": [{"delta": {"tool_calls": [{**call(2, ""), "index": 1}]}}]})
    assert [name for name, _ in events(held)] == ["content_block_stop", "content_block_start"]


def test_thinking_that_is_not_shown_still_beats():
    writer = ask(stream=True, thinking=OMITTED).answer
    writer.chunk({"choices": [{"delta": {"reasoning_content": "a"}}]})
    assert (
        writer.chunk({"choices": [{"delta": {"reasoning_content": "b"}}]}) == b'event: ping\ndata: {"type": "ping"}\n\n'
    )


@pytest.mark.parametrize(
    "deltas",
    [
        [{**call(1, '{"a": 1}')}, {**call(2, '{"a": 2}')}],  # no index at all
        [
            {**call(1, '{"a"'), "index": 0},
            {"index": 0, "function": {"arguments": ": 1}"}},
            {**call(2, '{"a": 2}'), "index": 0},
        ],
        [
            {**call(1, '{"a"'), "index": 0},
            {**call(1, ": 1}"), "index": 0},
            {**call(2, {"a": 2}), "index": 1},
        ],  # id repeated
        [
            {"id": "call_1", "function": {"name": "Bash"}},
            {"function": {"arguments": '{"a": 1}'}},
            {**call(2, {"a": 2})},
        ],
        [{**call(1, ""), "function": {"name": "Bash", "arguments": {"a": 1}}}, {**call(2, {"a": 2})}],  # an object
        [
            {"index": 0, "id": "call_1"},
            {"index": 0, "function": {"name": "Bash", "arguments": '{"a": 1}'}},
            call(2, {"a": 2}),
        ],
        [
            {**call(1, {"a": 1}), "index": 0},
            {"index": 0, "id": None, "function": {"name": None, "arguments": None}},
            call(2, {"a": 2}),
        ],
    ],
)
def test_servers_that_number_calls_their_own_way(deltas):
    chunks = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    blocks = accumulated(streamed(ask(stream=True).answer, chunks))["content"]
    assert [(block["id"], block["input"]) for block in blocks] == [("call_1", {"a": 1}), ("call_2", {"a": 2})]


def test_calls_without_id_get_one():
    whole = json.loads(ask().answer.whole(answer(calls=[{"function": {"name": "f", "arguments": "{}"}}] * 2)))
    ids = [block["id"] for block in whole["content"]]
    assert all(made.startswith("toolu_") for made in ids)
    assert len(set(ids)) == 2


@pytest.mark.parametrize("arguments", ['{"command": "rm', "[1]", '{"a": NaN}', "{} x", '{"a":' * 2000])
@pytest.mark.parametrize("finish", ["length", "tool_calls", None])
def test_a_call_that_was_cut_is_not_to_be_run(arguments, finish):
    made = answer("a", calls=[call(1, arguments)], finish=finish)
    whole = json.loads(ask().answer.whole(made))
    assert (whole["stop_reason"], whole["content"][1]["input"]) == ("max_tokens", {})
    told = checked(streamed(ask(stream=True).answer, chunked(made, lambda text: [text] if text else [])))
    assert told[-2][1]["delta"]["stop_reason"] == "max_tokens"
    assert (
        "".join(data["delta"].get("partial_json", "") for name, data in told if name.endswith("block_delta"))
        == arguments
    )


@pytest.mark.parametrize(
    ("fields", "reason", "stop"),
    [
        ({"content": "a"}, "end_turn", None),
        ({"content": "a", "finish": "length"}, "max_tokens", None),
        ({"content": "a", "finish": "content_filter"}, "refusal", None),
        ({"content": "a", "stop_reason": "END"}, "stop_sequence", "END"),  # vLLM
        ({"content": "a", "matched_stop": "END"}, "stop_sequence", "END"),  # SGLang
        ({"content": "a", "matched_stop": 151645}, "end_turn", None),
        ({"content": "a", "stop_reason": "</s>"}, "end_turn", None),
        ({"calls": [call(1, {})]}, "tool_use", None),
        ({"calls": [call(1, "")], "finish": "stop"}, "tool_use", None),
        ({"calls": [call(1, {})], "finish": "length"}, "max_tokens", None),
        ({"calls": [call(1, {}, name="")]}, "end_turn", None),
        ({}, "end_turn", None),
    ],
)
def test_stop_reasons(fields, reason, stop):
    made = answer(**fields)
    whole = json.loads(ask(stop_sequences=["END"]).answer.whole(made))
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, stop)
    told = streamed(ask(stop_sequences=["END"], stream=True).answer, chunked(made, lambda text: [text] if text else []))
    assert accumulated(told) == without_id(whole)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (USAGE, (10, 90, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 1}, (5, 0, 1)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (0, 5, 0)),
        ({"prompt_tokens": "5", "completion_tokens": -1, "prompt_tokens_details": []}, (0, 0, 0)),
        (None, (0, 0, 0)),
    ],
)
def test_usage_tells_cached_and_computed_tokens_apart(usage, counts):
    made = answer("a", usage=usage)
    told = accumulated(streamed(ask(stream=True).answer, chunked(made, list)))["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"], told["output_tokens"]) == counts
    assert json.loads(ask().answer.whole(made))["usage"] == told


def test_usage_in_every_chunk_is_told_from_the_start():
    chunk = {"choices": [{"delta": {"content": "a"}}], "usage": USAGE}
    assert events(ask(stream=True).answer.chunk(chunk))[0][1]["message"]["usage"]["cache_read_input_tokens"] == 90


def test_heartbeats_begin_the_message_once():
    writer = ask(stream=True).answer
    beats = events(writer.heartbeat() + writer.heartbeat())
    assert [name for name, _ in beats] == ["message_start", "ping", "ping"]
    told = beats + events(writer.chunk({"choices": [{"delta": {"content": "a"}}]}) + writer.end())
    assert accumulated(told)["content"] == [{"type": "text", "text": "a"}]


def test_an_answer_without_a_chunk_is_an_empty_one():
    message = accumulated(events(ask(stream=True).answer.end()))
    assert (message["content"], message["stop_reason"]) == ([], "end_turn")


@pytest.mark.parametrize("last", ["end", "fail"])
def test_nothing_follows_the_last_event(last):
    writer = ask(stream=True).answer
    failure = Failure(503, "gone", "upstream_died")
    assert writer.end() if last == "end" else writer.fail(failure)
    chunk = {"choices": [{"delta": {"content": "a"}}]}
    assert not (writer.chunk(chunk) + writer.end() + writer.fail(failure) + writer.heartbeat())


def test_a_broken_stream_ends_with_an_error():
    writer = ask(stream=True).answer
    writer.chunk({"choices": [{"delta": {"content": "a"}}]})
    ((name, data),) = events(writer.fail(Failure(503, "all are busy", "no_replica")))
    assert (name, data["error"]) == ("error", {"type": "overloaded_error", "message": "all are busy"})


def test_no_answer_is_told_where_none_was_wanted():
    """`max_tokens: 0` fills the cache; a chat upstream can't do with less than one token."""
    exchange = ask(max_tokens=0)
    assert exchange.body["max_tokens"] == 1
    message = json.loads(exchange.answer.whole(answer("a", finish="length")))
    assert (message["content"], message["stop_reason"]) == ([], "max_tokens")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WIRE_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(
        st.fixed_dictionaries({"choices": JSON | st.lists(st.fixed_dictionaries({"delta": JSON, "message": JSON}))}),
        max_size=4,
    )
)
def test_whatever_an_upstream_sends_the_events_are_well_formed(chunks):
    checked(streamed(ask(stream=True).answer, chunks))
    for chunk in chunks:
        assert json.loads(ask().answer.whole(chunk))["type"] == "message"


def test_arguments_as_deep_as_json_can_be_read_do_no_harm():
    depth = next(depth for depth in range(1100, 0, -1) if readable('{"a":' * depth + "1" + "}" * depth))
    for near in range(depth - 40, depth + 1):
        deep = '{"a":' * near + "1" + "}" * near
        whole = json.loads(ask().answer.whole(answer(calls=[call(1, deep)])))
        assert whole["stop_reason"] in ("tool_use", "max_tokens")


def readable(text):
    try:
        return bool(json.loads(text))
    except RecursionError:
        return False
