"""What a client makes of a stream of deltas, and the tools that the tests of the formats call."""

from __future__ import annotations

import json
from itertools import count

from engine.output.stream import ChatStream, MessageParser
from engine.output.tools.base import Call, Parsed
from engine.output.tools.tool import Tool


def schema(required, **properties):
    return {"type": "object", "properties": properties, "required": required}


RUN = Tool("run", "Run the tests.", schema([]))
READ = Tool("read", "Read a file.", schema(["path"], path={"type": "string"}, line={"type": "integer"}))
EDIT = Tool("edit", "Write code.", schema(["code"], code={"type": "string"}))
TOOLS = (RUN, READ, EDIT)


def code(text):
    return json.dumps({"code": text}, ensure_ascii=False)


def replay(deltas):
    """The message that the deltas add up to; every delta must be well formed."""
    texts, calls, ids = {"content": "", "reasoning_content": ""}, [], []
    for delta in deltas:
        ((kind, value),) = delta.as_openai().items()
        if kind != "tool_calls":
            assert value
            texts[kind] += value
            continue
        (piece,) = value
        if piece["index"] == len(calls):
            assert set(piece) == {"index", "id", "type", "function"}
            assert (piece["type"], piece["function"]["arguments"]) == ("function", "")
            calls.append([piece["function"]["name"], ""])
            ids.append(piece["id"])
        else:
            assert set(piece) == {"index", "function"}
            assert set(piece["function"]) == {"arguments"}
            assert piece["function"]["arguments"]
            calls[piece["index"]][1] += piece["function"]["arguments"]
    assert len(set(ids)) == len(ids)
    return Parsed(texts["content"], tuple(Call(*call) for call in calls), reasoning=texts["reasoning_content"])


def stream(tool_format, pieces, tools=TOOLS, **options):
    numbers = count()
    chat = ChatStream(tool_format, tools, new_id=lambda: f"call_{next(numbers)}", **options)
    deltas = [delta for piece in pieces for delta in chat.push(piece)]
    return replay(deltas + chat.finish())


def assert_any_cut(tool_format, text, sizes=(1, 2, 3, 7, 1000), **options):
    """The parse of `text`, after checking that every stream of it adds up to that."""
    for size in sizes:
        assert_cut(tool_format, [text[i : i + size] for i in range(0, len(text), size)], **options)
    return MessageParser(tool_format, TOOLS, **options).parse(text)


def assert_cut(tool_format, pieces, **options):
    whole = MessageParser(tool_format, TOOLS, **options).parse("".join(pieces))
    joined = Parsed(whole.content, whole.all_calls, reasoning=whole.reasoning)
    assert stream(tool_format, pieces, **options) == joined
