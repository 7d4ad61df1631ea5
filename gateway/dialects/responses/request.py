"""The fields of a request besides its history and tools, as those of a chat request.

| Responses | chat |
|---|---|
| `model`, `temperature`, `top_p`, `user`, `prompt_cache_key` | the same |
| `max_output_tokens` | `max_completion_tokens` |
| `reasoning.effort`, `text.verbosity` | `reasoning_effort`, `verbosity` |
| `text.format` | `response_format` |
| `include: ["message.output_text.logprobs"]`, `top_logprobs` | `logprobs`, `top_logprobs` |
| `parallel_tool_calls` | the same, where there are tools |

`metadata` comes back in the answer. `store: true` is taken and not kept to, with a warning. What needs a store or a
worker is a 400: `previous_response_id`, `conversation`, `prompt`, `background: true`. All else is ignored.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects.responses.choice import Choice, read_choice
from gateway.dialects.responses.fields import Fields, refused, shown
from gateway.dialects.responses.tools import Toolbox

LOGPROBS = "message.output_text.logprobs"
SEALED_REASONING = "reasoning.encrypted_content"
STORED = ("previous_response_id", "conversation", "prompt")


def refuse_unsupported(body: Fields) -> None:
    for name in STORED:
        if body.raw(name) is not None:
            why = f"`{name}` is not supported: nothing is stored here. Send the whole history in `input`"
            raise refused(name, why, "unsupported_parameter")
    if body.flag("background"):
        why = "`background` is not supported: wait for the answer or stream it"
        raise refused("background", why, "unsupported_parameter")


def included(body: Fields) -> frozenset[str]:
    names = body.array("include") or []
    if not all(isinstance(name, str) for name in names):
        raise body.wrong("include", "an array of strings")
    return frozenset(names)


def chat_request(body: Fields, messages: list[dict[str, Any]], tools: Toolbox) -> tuple[dict[str, Any], Choice]:
    """The chat request and the tool choice in it."""
    choice = read_choice(body, tools)
    fields = {"model": body.text("model"), "messages": messages}
    fields |= _stream_fields(body) | _tool_fields(body, choice) | _sampling_fields(body) | _text_fields(body)
    fields |= {"prompt_cache_key": body.text("prompt_cache_key"), "user": body.text("user")}
    return {name: value for name, value in fields.items() if value is not None}, choice


def _stream_fields(body: Fields) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}} if body.flag("stream") else {}


def _tool_fields(body: Fields, choice: Choice) -> dict[str, Any]:
    parallel = body.flag("parallel_tool_calls")
    if not choice.offered:
        return {}
    return {"tools": choice.offered, "tool_choice": choice.chat, "parallel_tool_calls": parallel}


def _sampling_fields(body: Fields) -> dict[str, Any]:
    reasoning = body.mapping("reasoning")
    wanted = LOGPROBS in included(body)
    alternatives = body.integer("top_logprobs")
    return {
        "max_completion_tokens": body.integer("max_output_tokens"),
        "temperature": body.number("temperature"),
        "top_p": body.number("top_p"),
        "reasoning_effort": reasoning.text("effort") if reasoning else None,
        "logprobs": True if wanted else None,
        "top_logprobs": alternatives if wanted else None,
    }


def _text_fields(body: Fields) -> dict[str, Any]:
    text = body.mapping("text")
    if text is None:
        return {}
    return {"response_format": _response_format(text), "verbosity": text.text("verbosity")}


def _response_format(text: Fields) -> dict[str, Any] | None:
    shape = text.mapping("format")
    if shape is None:
        return None
    kind = shape.needed_text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": kind}
    if kind != "json_schema":
        why = f"`{shape.param('type')}` is {shown(kind)}, but must be text, json_object or json_schema"
        raise refused(shape.param("type"), why)
    return {"type": kind, "json_schema": _schema(shape)}


def _schema(shape: Fields) -> dict[str, Any]:
    if shape.mapping("schema") is None:
        raise refused(shape.param("schema"), f"`{shape.param('schema')}` is missing: an object", "missing_parameter")
    named = {"name": shape.needed_text("name"), "description": shape.text("description")}
    fields = named | {"schema": shape.raw("schema"), "strict": shape.flag("strict")}
    return {name: value for name, value in fields.items() if value is not None}
