"""Chat answers, whole and in chunks, and the items and events that the dialect makes of them."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.dialects.responses.dialect import Responses

EVENT = TypeAdapter(ResponseStreamEvent)
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 90},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
TOOLS = [
    {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {}}},
    {"type": "namespace", "name": "mcp", "description": "", "tools": [{"type": "function", "name": "find"}]},
    {"type": "custom", "name": "apply_patch"},
]
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def ask(**fields):
    return Responses().exchange({"model": "m", "input": "go", **fields})


def call(number, arguments="{}", name="run"):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(content=None, reasoning=None, calls=(), finish=None, usage=USAGE, **choice):
    message = {"role": "assistant", "content": content}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    message |= {"tool_calls": list(calls)} if calls else {}
    finish = finish or ("tool_calls" if calls else "stop")
    whole = {"id": "x", "model": "up", "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}]}
    return whole | {"usage": usage}


def delta(finish=None, **fields):
    return {"model": "up", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call_delta(index, arguments="", **heading):
    function = {"arguments": arguments} | ({"name": heading.pop("name")} if "name" in heading else {})
    return delta(tool_calls=[{"index": index, **heading, "function": function}])


def chunked(whole, cut):
    """The chunks of a stream that says the same. `cut(text)` is a list of its pieces."""
    message = whole["choices"][0]["message"]
    yield delta(role="assistant", content="")
    yield from (delta(reasoning_content=piece) for piece in cut(message.get("reasoning_content") or ""))
    yield from (delta(content=piece) for piece in cut(message["content"] or ""))
    for index, made in enumerate(message.get("tool_calls", ())):
        yield call_delta(index, id=made["id"], type="function", name=made["function"]["name"])
        yield from (call_delta(index, piece) for piece in cut(made["function"]["arguments"]))
    yield delta(whole["choices"][0]["finish_reason"])
    yield {"choices": [], "usage": whole["usage"]}


def events(raw):
    """Each frame's data; its `event:` line says the same type."""
    found = []
    for frame in raw.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def streamed(exchange, chunks):
    writer = exchange.answer
    return events(b"".join(map(writer.chunk, chunks)) + writer.end())


def letters(text):
    return list(text)


@st.composite
def cuts(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))

    def cut(text):
        pieces, at = [], 0
        while at < len(text):
            size = sizes[len(pieces) % len(sizes)]
            pieces.append(text[at : at + size])
            at += size
        return pieces

    return cut


@st.composite
def calls(draw, number):
    """A call in any of the styles in which models write."""
    name = draw(st.sampled_from(["run", "mcp__find", "apply_patch", "unknown"]))
    if name != "apply_patch":
        spaced = draw(st.booleans())
        value = draw(st.dictionaries(WORDS, WORDS | st.integers() | st.none(), max_size=3))
        return call(number, json.dumps(value, separators=None if spaced else (",", ":")), name)
    text = json.dumps(draw(st.text(st.characters(codec="utf-8"), max_size=20)), ensure_ascii=False)
    styles = (f'{{"input": {text}}}', f'{{"input":{text}}}', "*** Begin Patch\n+ x")
    return call(number, draw(st.sampled_from(styles)), name)


@st.composite
def answers(draw):
    """An answer with any mix of reasoning, text and calls."""
    made = [draw(calls(number)) for number in range(draw(st.integers(0, 3)))]
    return answer(draw(st.none() | WORDS), draw(st.none() | WORDS), made)
