"""Chat answers, whole and in chunks, and what Anthropic's own library makes of what is written for them."""

from __future__ import annotations

import json

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gateway.dialects.messages.translator import Messages

EVENT = TypeAdapter(RawMessageStreamEvent)
BODY = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "go"}]}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
TOOL = {"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"b": "ü", "a": [1, 2.5]}}
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 90}}

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ARGUMENTS = st.dictionaries(WORDS, WORDS | st.integers() | st.booleans() | st.none() | st.lists(WORDS), max_size=3)


def ask(**fields):
    return Messages().exchange({**BODY, **fields})


def text(*texts):
    return [{"type": "text", "text": said} for said in texts]


def result(content, **fields):
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


def call(number, arguments, name="Bash"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


def answer(content=None, reasoning=None, calls=(), finish=None, usage=USAGE, **choice):
    message = {"role": "assistant", "content": content}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    message |= {"tool_calls": list(calls)} if calls else {}
    finish = finish or ("tool_calls" if calls else "stop")
    whole = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}]}
    return whole | {"usage": usage}


@st.composite
def answers(draw):
    """An answer with any mix of reasoning, text and calls."""
    calls = [call(number, arguments) for number, arguments in enumerate(draw(st.lists(ARGUMENTS, max_size=3)))]
    return answer(draw(st.none() | WORDS), draw(st.none() | WORDS), calls)


def chunked(whole, cut):
    """The chunks of a stream that says the same. `cut(text)` is a list of its pieces."""
    choice = whole["choices"][0]
    message = choice["message"]
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in cut(message.get("reasoning_content") or "")]
    deltas += [{"content": piece} for piece in cut(message["content"] or "")]
    for index, made in enumerate(message.get("tool_calls", ())):
        named = {**made, "index": index, "function": {"name": made["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [named]})
        pieces = cut(made["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{**choice, "message": None, "delta": {}}]}
    yield {"choices": [], "usage": whole["usage"]}


@st.composite
def cuts(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))

    def cut(text):
        pieces, at, turn = [], 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            pieces.append(text[at : at + size])
            at, turn = at + size, turn + 1
        return pieces

    return cut


def events(raw):
    """Every server-sent event as (name, data); each must be of a kind that Anthropic's library knows."""
    told = []
    for frame in raw.decode().split("\n\n")[:-1]:
        first, second = frame.split("\n")
        name, data = first.removeprefix("event: "), json.loads(second.removeprefix("data: "))
        assert data["type"] == name
        if name not in ("ping", "error"):
            EVENT.validate_python(data)
        told.append((name, data))
    return told


def streamed(writer, chunks):
    return events(b"".join([*(writer.chunk(chunk) for chunk in chunks), writer.end()]))


def checked(told):
    """The events but for pings, in Anthropic's order: one block after the other, each begun and ended."""
    told = [(name, data) for name, data in told if name != "ping"]
    names = [name for name, _ in told]
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    at, inside = -1, False
    for name, data in told[1:-2]:
        if name == "content_block_start":
            assert not inside
            at, inside = at + 1, True
        assert inside
        assert data["index"] == at
        inside = name != "content_block_stop"
    assert not inside
    return told


def accumulated(told):
    """What the library's accumulator has after all events."""
    message, buffers = None, {}
    for _, data in checked(told):
        message = accumulate_event(event=data, current_snapshot=message, json_bufs=buffers)
    return without_id(message.to_dict(warnings=False))


def without_id(message):
    return {key: value for key, value in message.items() if key != "id" and value is not None}
