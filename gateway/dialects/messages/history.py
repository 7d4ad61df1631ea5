"""Anthropic's messages as chat messages, in place and in order.

An assistant message becomes what a chat client would send back for the same answer: the joined texts, the calls, the
reasoning. A user message is cut at its tool results, each of which is a message of its own. A system message among the
others stays where it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from gateway.dialects.messages import signature
from gateway.dialects.messages.blocks import (
    Part,
    as_content,
    kind_of,
    part_of,
    result_content,
    system_text,
    text_part,
)
from gateway.dialects.messages.check import Json, Warnings, a_list, a_name, a_string, an_object, invalid, missing
from gateway.errors import GatewayError

Message = dict[str, Json]

_USERS = frozenset({"image", "document", "search_result", "tool_result", "tool_reference"})
_ASSISTANTS = frozenset({"tool_use", "thinking", "redacted_thinking", "compaction"})
_UNSAID = frozenset({"redacted_thinking", "fallback"})
"""Blocks that even Anthropic's own models never read as text."""


def chat_messages(body: Mapping[str, Json], warnings: Warnings) -> list[Message]:
    """The whole conversation, its system prompt first. Not empty."""
    if body.get("messages") is None:
        raise missing("messages")
    system = system_text(body.get("system"), warnings)
    messages = [{"role": "system", "content": system}] if system else []
    for index, message in enumerate(a_list(body["messages"], "messages")):
        messages += _turn(message, f"messages.{index}", warnings)
    if len(messages) == bool(system):
        raise invalid("messages", "at least one message with content is required")
    return messages


def continues(messages: list[Message]) -> bool:
    """Whether the conversation ends with the beginning of the answer."""
    last = messages[-1]
    return last["role"] == "assistant" and "tool_calls" not in last and bool(last["content"])


def _turn(message: Json, path: str, warnings: Warnings) -> list[Message]:
    said = an_object(message, path)
    role = a_name(said, "role", path)
    if said.get("content") is None:
        raise missing(f"{path}.content")
    if role == "user":
        return list(_user(said["content"], f"{path}.content", warnings))
    if role == "assistant":
        return _assistant(said["content"], f"{path}.content", warnings)
    if role == "system":
        text = system_text(said["content"], warnings, f"{path}.content")
        return [{"role": "system", "content": text}] if text else []
    raise invalid(f"{path}.role", "Input should be 'user', 'assistant' or 'system'")


def _user(content: Json, path: str, warnings: Warnings) -> Iterator[Message]:
    if isinstance(content, str):
        yield {"role": "user", "content": content}
        return
    parts: list[Part] = []
    for index, block in enumerate(a_list(content, path)):
        where = f"{path}.{index}"
        known, kind = kind_of(block, where)
        if kind in _ASSISTANTS:
            raise invalid(where, f"{kind} blocks can only be in assistant messages")
        if kind != "tool_result":
            parts += part_of(known, kind, where, warnings)
            continue
        yield from _said_by_user(parts)
        parts = []
        call_id = a_name(known, "tool_use_id", where)
        yield {"role": "tool", "tool_call_id": call_id, "content": result_content(known, where, warnings)}
    yield from _said_by_user(parts)


def _said_by_user(parts: list[Part]) -> list[Message]:
    return [{"role": "user", "content": as_content(parts)}] if parts else []


def _assistant(content: Json, path: str, warnings: Warnings) -> list[Message]:
    """One message, or none for an empty one. Texts are joined with nothing between: they were cut out of one text."""
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}] if content else []
    texts: list[Part] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for index, block in enumerate(a_list(content, path)):
        where = f"{path}.{index}"
        known, kind = kind_of(block, where)
        if kind in _USERS:
            raise invalid(where, f"{kind} blocks can't be in assistant messages")
        if kind == "text":
            texts += text_part(known, where)
        elif kind == "thinking":
            thoughts.append(_thinking(known, where, warnings))
        elif kind == "tool_use":
            calls.append(_call(known, where))
        elif kind == "compaction":
            texts += [known["content"]] if isinstance(known.get("content"), str) else []
        elif kind not in _UNSAID:
            warnings.add(f"dropped a {kind} block of an earlier answer")
    return _answer("".join(text for text in texts if isinstance(text, str)), "".join(thoughts), calls)


def _answer(text: str, thoughts: str, calls: list[Json]) -> list[Message]:
    if not (text or thoughts or calls):
        return []
    message: Message = {"role": "assistant", "content": None if calls and not text else text}
    if thoughts:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return [message]


def _thinking(block: Mapping[str, Json], path: str, warnings: Warnings) -> str:
    text = a_string(block, "thinking", path)
    signed = block.get("signature")
    if text or not isinstance(signed, str) or signed == signature.PLAIN:
        return text
    carried = signature.carried(signed)
    if carried is None:
        warnings.add("dropped a thinking block without text: its signature is another server's")
    return carried or ""


def _call(block: Mapping[str, Json], path: str) -> Json:
    name, call_id = a_name(block, "name", path), a_name(block, "id", path)
    if block.get("input") is None:
        raise missing(f"{path}.input")
    arguments = _arguments(an_object(block["input"], f"{path}.input"), f"{path}.input")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _arguments(members: Mapping[str, Json], path: str) -> str:
    """The call's JSON as templates and models write it: spaces behind `:` and `,`, letters as themselves."""
    try:
        return json.dumps(members, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise _unwritable(path, "is nested too deeply") from None
    except ValueError:
        raise _unwritable(path, "has a number that JSON can't write") from None


def _unwritable(path: str, why: str) -> GatewayError:
    return invalid(path, f"Input {why}")
