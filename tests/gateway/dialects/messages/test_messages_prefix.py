"""A conversation's next turn begins with the chat messages of the turn before, to the byte."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.messages.translator import Messages
from tests.gateway.dialects.messages.saying import BODY, WORDS, accumulated, answer, answers, ask, call, chunked, cuts
from tests.gateway.dialects.messages.saying import streamed as told


def as_sent_back(whole):
    """What a chat client would append for this answer."""
    message = {key: value for key, value in whole["choices"][0]["message"].items() if value}
    if set(message) == {"role"}:
        return []
    return [message | ({} if "content" in message else {"content": None if "tool_calls" in message else ""})]


def results(draw, message):
    blocks = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": draw(WORDS), "is_error": draw(st.booleans())}
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    return [*blocks, {"type": "text", "text": draw(WORDS), "cache_control": {"type": "ephemeral"}}]


@settings(max_examples=40)
@given(st.data(), st.sampled_from([None, {"type": "adaptive", "display": "omitted"}]))
def test_every_turn_extends_the_last(data, thinking):
    body = {**BODY, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    body |= {"thinking": thinking} if thinking else {}
    for _ in range(data.draw(st.integers(1, 3))):
        exchange = Messages().exchange({**body, "stream": data.draw(st.booleans())})
        whole = data.draw(answers())
        if exchange.stream:
            message = accumulated(told(exchange.answer, chunked(whole, data.draw(cuts()))))
        else:
            message = json.loads(exchange.answer.whole(whole))
        history = [*body["messages"], {"role": "assistant", "content": message["content"]}]
        body = {**body, "messages": [*history, {"role": "user", "content": results(data.draw, message)}]}
        turn = Messages().exchange(body).body["messages"]
        expected = [*exchange.body["messages"], *as_sent_back(whole)]
        assert turn[: len(expected)] == expected


def test_text_around_calls_is_one_text_again():
    """Servers may go on writing behind a call; chat messages have one text."""
    exchange = ask(stream=True)
    made = call(1, {"command": "ls"})
    deltas = [{"content": "a "}, {"tool_calls": [{**made, "index": 0}]}, {"content": "b"}, {"reasoning_content": "t"}]
    message = accumulated(told(exchange.answer, [{"choices": [{"delta": delta}]} for delta in deltas]))
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "text", "thinking"]
    history = [*BODY["messages"], {"role": "assistant", "content": message["content"]}]
    said = ask(messages=[*history, {"role": "user", "content": "x"}]).body["messages"][1]
    assert said == {"role": "assistant", "content": "a b", "reasoning_content": "t", "tool_calls": [made]}


def test_cache_control_moves_without_a_trace():
    def asked(*marked):
        blocks = [{"type": "text", "text": str(n)} for n in range(3)]
        blocks = [
            block | ({"cache_control": {"type": "ephemeral"}} if n in marked else {}) for n, block in enumerate(blocks)
        ]
        tools = [{"name": "t", "input_schema": {"type": "object"}, **({"cache_control": {}} if marked else {})}]
        return ask(system=blocks, messages=[{"role": "user", "content": blocks}], tools=tools).body

    assert json.dumps(asked()) == json.dumps(asked(0, 2))


def test_omitted_thinking_is_in_the_signature_only():
    exchange = ask(thinking={"type": "adaptive", "display": "omitted"})
    block = json.loads(exchange.answer.whole(answer("hi", "secret 😀 thought")))["content"][0]
    assert block["thinking"] == ""
    assert "secret" not in block["signature"]
    history = [*BODY["messages"], {"role": "assistant", "content": [block, {"type": "text", "text": "hi"}]}]
    said = ask(messages=[*history, {"role": "user", "content": "x"}]).body["messages"][1]
    assert said == {"role": "assistant", "content": "hi", "reasoning_content": "secret 😀 thought"}
