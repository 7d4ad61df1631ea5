"""The event stream: complete, in order, valid for OpenAI's own types, and saying what the plain answer says."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from openai.types.responses import Response

from gateway.dialects.responses.dialect import Responses
from gateway.dialects.translate import Failure
from tests.examples import examples
from tests.gateway.dialects.responses.speaking import (
    EVENT,
    TOOLS,
    answer,
    answers,
    ask,
    call,
    call_delta,
    chunked,
    cuts,
    delta,
    events,
    letters,
    streamed,
)

ANSWER_ID = re.compile(r"[0-9a-f]{32}")
JSON_TEXT = '{"a": [1, "}"]}'


def nameless(response):
    """A response without what differs from run to run."""
    return ANSWER_ID.sub("ID", json.dumps({**response, "created_at": 0}))


def told(stream):
    """What a client puts together from the deltas alone."""
    items = {}
    for event in stream:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(items)
            items[event["output_index"]] = [event["item"]["id"], ""]
        elif event["type"].endswith(".delta"):
            item = items[event["output_index"]]
            assert event["item_id"] == item[0]
            item[1] += event["delta"]
    return list(items.values())


def in_item(item):
    parts = item.get("content") or item.get("summary") or ()
    return item.get("arguments", item.get("input", "".join(part["text"] for part in parts)))


@settings(max_examples=examples(100))
@given(answers(), cuts())
def test_stream_says_what_the_plain_answer_says(answer, cut):
    fields = {"tools": TOOLS, "include": ["reasoning.encrypted_content"]}
    stream = streamed(ask(**fields), chunked(answer, cut))
    whole = json.loads(ask(**fields).answer.whole(answer))
    final = stream[-1]["response"]
    assert nameless(final) == nameless(whole)
    assert told(stream) == [[item["id"], in_item(item)] for item in final["output"]]
    assert [event["item"] for event in stream if event["type"] == "response.output_item.done"] == final["output"]
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert [event["type"] for event in stream[:2]] == ["response.created", "response.in_progress"]
    assert len({event["response"]["id"] for event in stream if "response" in event}) == 1
    for event in stream:
        EVENT.validate_python(event)


@given(answers())
def test_the_response_object_is_valid(answer):
    raw = ask(tools=TOOLS, metadata={"a": "b"}, tool_choice="auto").answer.whole(answer)
    response = Response.model_validate_json(raw, strict=True)
    assert response.metadata == {"a": "b"}
    assert response.output_text == (answer["choices"][0]["message"]["content"] or "")
    assert (response.usage.input_tokens_details.cached_tokens, response.usage.total_tokens) == (90, 107)


def test_the_sequence_of_a_text_and_a_call():
    whole = answer("Hi", calls=[call(1, JSON_TEXT)])
    names = [event["type"].removeprefix("response.") for event in streamed(ask(), chunked(whole, lambda text: [text]))]
    assert names == [
        "created",
        "in_progress",
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]


@pytest.mark.parametrize(
    ("reasoning", "names"),
    [
        ({}, ["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"]),
        (
            {"summary": "auto"},
            [
                *("reasoning_summary_part.added", "reasoning_summary_text.delta"),
                *("reasoning_summary_text.done", "reasoning_summary_part.done"),
            ],
        ),
    ],
)
def test_reasoning_comes_as_the_request_wants_it(reasoning, names):
    stream = streamed(ask(reasoning=reasoning), [delta(reasoning_content="hm"), delta("stop")])
    between = [event["type"].removeprefix("response.") for event in stream[3:-2]]
    assert between == names


def test_interleaved_calls_stay_apart():
    chunks = [
        call_delta(0, '{"a":', id="c0", name="run"),
        call_delta(1, '{"b":', id="c1", name="run"),
        call_delta(0, "1}"),
        call_delta(1, "2}"),
        delta("tool_calls"),
    ]
    stream = streamed(ask(), chunks)
    final = stream[-1]["response"]["output"]
    assert [(item["call_id"], item["arguments"]) for item in final] == [("c0", '{"a":1}'), ("c1", '{"b":2}')]
    assert [text for _, text in told(stream)] == ['{"a":1}', '{"b":2}']
    assert [event["item"] for event in stream if event["type"] == "response.output_item.done"] == final


@pytest.mark.parametrize(
    "chunks",
    [
        [call_delta(0, "{}", id="c0", name="run"), call_delta(0, "{}", id="c1", name="run")],
        [call_delta(None, "{}", id="c0", name="run"), call_delta(None, "{}", id="c1", name="run")],
        [
            *(call_delta(0, "", id="c0", name="run"), call_delta(0, "{", id="c0"), call_delta(0, "}", id="c0")),
            call_delta(None, "{}", id="c1", name="run"),
        ],
        [call_delta(0, "{}", id="c0"), call_delta(0, name="run"), call_delta(1, {}, id="c1", name="run")],
    ],
    ids=["one index", "no index", "id repeated", "name late, arguments an object"],
)
def test_sloppy_servers_calls(chunks):
    final = streamed(ask(), chunks)[-1]["response"]["output"]
    made = [(item["call_id"], item["name"], item["arguments"]) for item in final]
    assert made == [("c0", "run", "{}"), ("c1", "run", "{}")]


def test_a_call_that_cannot_be_named_yet_keeps_its_place():
    chunks = [
        call_delta(0, "", id="c0", name="apply_patch"),
        call_delta(1, "{}", id="c1", name="run"),
        call_delta(0, '{"input":"+'),
        call_delta(0, ' x"}'),
    ]
    stream = streamed(ask(tools=TOOLS), chunks)
    final = stream[-1]["response"]["output"]
    assert [(item["call_id"], in_item(item)) for item in final] == [("c0", "+ x"), ("c1", "{}")]
    assert [text for _, text in told(stream)] == ["+ x", "{}"]


def test_calls_always_have_ids_of_their_own():
    whole = answer(calls=[call(1), call(1), {"function": {"name": "run", "arguments": "{}"}}])
    ids = [item["call_id"] for item in json.loads(ask().answer.whole(whole))["output"]]
    assert ids[0] == "call_1"
    assert len(set(ids)) == 3
    assert all(ids)


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_is_incomplete(finish, reason):
    whole = answer("a", calls=[call(1, '{"a')], finish=finish)
    last = streamed(ask(), chunked(whole, letters))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": reason}
    assert [item["status"] for item in last["response"]["output"]] == ["completed", "incomplete"]
    assert last["response"]["output"][1]["arguments"] == '{"a'
    EVENT.validate_python(last)


def test_heartbeats_keep_the_order():
    writer = ask().answer
    raw = writer.heartbeat() + writer.heartbeat() + writer.chunk(delta(content="a")) + writer.heartbeat()
    stream = events(raw + writer.end())
    names = [event["type"].removeprefix("response.") for event in stream]
    assert names[:3] == ["created", "in_progress", "in_progress"]
    assert names[3:7] == ["output_item.added", "content_part.added", "output_text.delta", "in_progress"]
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert len({event["response"]["id"] for event in stream if "response" in event}) == 1


@pytest.mark.parametrize("chunks", [[], [delta(content="a")]])
def test_a_broken_stream_fails_once(chunks):
    writer = ask().answer
    raw = b"".join(map(writer.chunk, chunks))
    stream = events(raw + writer.fail(Failure(400, "too long", "context_length_exceeded")))
    assert stream[0]["type"] == "response.created"
    assert stream[-1]["type"] == "response.failed"
    response = stream[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "context_length_exceeded")
    assert [item["status"] for item in response["output"]] == ["incomplete"] * len(chunks)
    after = writer.fail(Failure(502, "", "")), writer.end(), writer.heartbeat(), writer.chunk(delta(content="b"))
    assert after == (b"", b"", b"", b"")


def test_an_empty_answer_is_an_empty_message():
    (item,) = streamed(ask(), [delta("stop")])[-1]["response"]["output"]
    assert (item["type"], [part["text"] for part in item["content"]]) == ("message", [""])


def test_a_refusal_is_a_part_of_its_own():
    stream = streamed(ask(), [delta(content="a"), delta(refusal="no"), delta("stop")])
    (item,) = stream[-1]["response"]["output"]
    assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]
    for event in stream:
        EVENT.validate_python(event)


def test_logprobs_go_along():
    logprobs = {"content": [{"token": "a", "logprob": float("-inf"), "bytes": [97], "top_logprobs": None}]}
    exchange = ask(include=["message.output_text.logprobs"], top_logprobs=2)
    assert (exchange.body["logprobs"], exchange.body["top_logprobs"]) == (True, 2)
    response = Response.model_validate_json(exchange.answer.whole(answer("a", logprobs=logprobs)))
    assert [entry.model_dump() for entry in response.output[0].content[0].logprobs] == [
        {"token": "a", "logprob": -9999.0, "bytes": [97], "top_logprobs": []}
    ]


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None, "usage": 3, "model": 1},
        {"choices": [None, {"index": 1, "delta": {"content": "other"}}]},
        {"choices": [{"delta": None, "finish_reason": ""}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, {}, {"function": 1}, {"index": "x"}]}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}, "logprobs": {"content": [1, {"bytes": "x"}]}}]},
        {"usage": {"prompt_tokens": "many", "prompt_tokens_details": [1]}},
    ],
)
def test_odd_chunks_do_not_break_the_stream(chunk):
    stream = streamed(ask(), [chunk, delta(content="a"), chunk])
    assert stream[-1]["type"] == "response.completed"
    assert "a" in [in_item(item) for item in stream[-1]["response"]["output"]]
    whole = json.loads(ask().answer.whole(chunk))
    assert whole["status"] == "completed"


def test_usage_is_not_invented():
    assert streamed(ask(), [delta(content="a")])[-1]["response"]["usage"] is None


def test_errors_have_openais_shape():
    error = json.loads(Responses().error(Failure(400, "why", "invalid_value", "input")))["error"]
    assert error == {"message": "why", "type": "invalid_request_error", "param": "input", "code": "invalid_value"}
    kinds = [json.loads(Responses().error(Failure(status, "", "")))["error"]["type"] for status in (429, 503)]
    assert kinds == ["rate_limit_error", "server_error"]
