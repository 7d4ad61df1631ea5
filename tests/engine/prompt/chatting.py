"""A chat with a model whose sampled ids are given: what its client and the engine do with each turn."""

from __future__ import annotations

from random import Random

from engine.server.prepare import Caller
from engine.server.wire import ChatRequest

CALLER = Caller("tenant")


class NoGrammars:
    """Compiles nothing: what is generated is given here."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def ask(preparer, messages, **fields):
    return preparer.chat(ChatRequest(messages=messages, **fields), CALLER)


def generate(preparer, call, ids, seen=None):
    """What the engine does with sampled ids; the message that a client makes of it.

    `seen`: the client leaves after so many pieces of text.
    """
    request = call.requests[0]
    parser = preparer.dialect.stream(call.tools, call.prompt.begun)
    deltas, pieces = [], []
    for token in ids:
        request.known.append(token)
        if token in request.stop_ids:
            break
        pieces.append(request.text.push(token))
        if seen is None or len(pieces) <= seen:
            deltas += parser.push(pieces[-1])
        if request.text.stopped:
            break
    if seen is None:
        deltas += parser.push(request.text.finish()) + parser.finish()
        preparer.remember(CALLER, call, request, None, parser.call_ids)
    else:
        preparer.remember(CALLER, call, request, "".join(pieces[:seen]), parser.call_ids)
    return message_of(deltas)


def message_of(deltas):
    calls = []
    for part in (delta.tool for delta in deltas if delta.tool is not None):
        if part.id is not None:
            calls.append({"id": part.id, "type": "function", "function": {"name": part.name, "arguments": ""}})
        calls[part.index]["function"]["arguments"] += part.arguments
    content = "".join(delta.content or "" for delta in deltas)
    reasoning = "".join(delta.reasoning or "" for delta in deltas)
    message = {"role": "assistant", "content": content or None}
    return {
        **message,
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
    }


def oddly(tokenizer, text, seed):
    """Ids of `text`, but cut at random places first: as a model at temperature 1 may write it."""
    source, ids = Random(seed), []
    while text:
        length = source.randint(1, 5)
        ids += tokenizer.encode(text[:length])
        text = text[length:]
    return ids


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
