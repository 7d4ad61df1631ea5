"""Conversations with tool calls: replies as clients put them together, and what a turn leaves to reuse."""

from __future__ import annotations

import json
from random import Random

import pytest

from benchmarks.agent_tools import TYPICAL, agent_tools
from benchmarks.tool_talk import Ask, Cut, Reply, Step, asks, end_of, results, reusable, whole_before
from benchmarks.tool_turns import TURNS, rows
from engine.output.tools.tool import read_tools

FREE = Ask("auto", Cut.LIMIT, 9, None, 0, stream=False)
STOPPING = Ask("auto", Cut.STOP, 9, "=", 0, stream=False)


def entries(*tokens, forced=()):
    content = [
        {"bytes": list(token.encode()), **({"forced": True} if number in forced else {})}
        for number, token in enumerate(tokens)
    ]
    return {"content": content}


def reply(*tokens, finish="length", forced=(), generated=None, prompt=100):
    taken = Reply()
    whole = {
        "finish_reason": finish,
        "message": {"content": "".join(tokens)},
        "logprobs": entries(*tokens, forced=forced),
    }
    taken.take(whole, {"prompt_tokens": prompt, "completion_tokens": generated or len(tokens)})
    return taken


def test_a_stream_and_a_whole_answer_make_the_same_message():
    call = {"id": "c1", "type": "function", "function": {"name": "finish", "arguments": '{"a": 1}'}}
    whole = Reply()
    whole.take({"message": {"role": "assistant", "content": "Yes", "tool_calls": [call]}, "finish_reason": "stop"}, {})
    streamed = Reply()
    opening = {**call, "index": 0, "function": {"name": "finish", "arguments": ""}}
    for delta in (
        {"content": "Y"},
        {"content": "es"},
        {"tool_calls": [opening]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    ):
        streamed.take({"delta": delta, "finish_reason": None}, None)
    streamed.take({"delta": {}, "finish_reason": "stop"}, None)
    streamed.take({}, {"prompt_tokens": 1})
    assert streamed.message == whole.message == {"role": "assistant", "content": "Yes", "tool_calls": [call]}
    assert streamed.finish == "stop"
    assert streamed.usage == {"prompt_tokens": 1}


def test_the_last_sampled_token_has_no_kv_yet():
    assert reusable(reply("a", "b", "c"), FREE) == 102


def test_what_was_forced_behind_the_last_sampled_token_has_none_either():
    assert reusable(reply("a", "b", "c", "d", forced={1, 2, 3}), FREE) == 100
    assert reusable(reply("a", "b", "c", "d", forced={1, 3}), FREE) == 102


def test_a_token_that_only_ends_the_answer_comes_after_all_others():
    assert reusable(reply("a", "b", finish="stop", generated=3, forced={1}), FREE) == 102


def test_of_an_answer_cut_by_a_stop_string_the_tokens_before_it_are_left():
    stopped = reply("a", "b =", "c", finish="stop")
    assert reusable(stopped, STOPPING) == 101
    assert end_of(stopped, STOPPING) == "stop string"
    assert reusable(reply("a", "b", "c"), STOPPING) == 102  # it didn't occur


@pytest.mark.parametrize(("stop", "count"), [("b", 1), ("a", 0), ("bc", 1), ("d", 3), ("é", 4)])
def test_tokens_wholly_before_a_stop_string(stop, count):
    assert whole_before([b"a", b"b", b"c", b"d", "é".encode()], stop) == (4 if stop == "é" else count)


def test_runs_are_the_same_each_time_and_mix_what_is_asked():
    assert asks(3, 4, 96, seed=1) == asks(3, 4, 96, seed=1)
    mixed = [ask for run in range(40) for ask in asks(run, 4, 96, 0)]
    assert {ask.cut for ask in mixed} == set(Cut)
    assert {ask.choice for ask in mixed} == {"auto", "required"}
    assert sum(ask.stream for ask in mixed) == len(mixed) / 2
    assert all((ask.stop is not None) == (ask.cut is Cut.STOP) for ask in mixed)


def test_every_call_gets_its_result():
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"]
    assert [each["tool_call_id"] for each in results({"tool_calls": calls}, Random(0))] == ["a", "b"]
    assert [each["role"] for each in results({"content": "x"}, Random(0))] == ["user"]


def test_the_table_counts_follow_ups_by_tokens():
    steps = [Step(0, n, FREE, "length", 110, 109, cached, {}) for n, cached in enumerate((109, 109, 107))]
    assert rows(steps)[-1] == "| all | 3 | 66.7% | 2 × 0, 1 × 2 | 3 × 1 |"


def test_the_engines_own_counts_are_read():
    lines = [
        "# TYPE sapwood_engine_turns_total counter",
        'sapwood_engine_turns_total{history="spliced"} 9.0',
        "other 1.0",
    ]
    assert TURNS.findall("\n".join(lines)) == [("spliced", "9.0")]


def test_given_calls_are_calls_of_the_tools():
    tools = {tool.name: tool.parameters for tool in read_tools(agent_tools())}
    assert len(tools) == 12
    for name, arguments in TYPICAL:
        assert set(tools[name]["required"]) <= arguments.keys() <= tools[name]["properties"].keys()
        order = [key for key in tools[name]["properties"] if key in arguments]
        assert list(arguments) == order  # which a grammar insists on
        assert json.dumps(arguments)
