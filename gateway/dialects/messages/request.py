"""A body of `/v1/messages` as a chat request.

Fields that mean nothing to a chat upstream (`service_tier`, `context_management`, `output_config.effort`, …) are
ignored, as is every field that isn't known: clients send new ones with each release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gateway.dialects.messages.check import (
    Json,
    Warnings,
    a_name,
    an_object,
    invalid,
    missing,
    optional_bool,
    optional_list,
    optional_object,
)
from gateway.dialects.messages.history import chat_messages, continues
from gateway.dialects.messages.tools import chat_choice, chat_tools

_NUMBERS = ("temperature", "top_p", "top_k")


def chat_prompt(body: Mapping[str, Json], warnings: Warnings) -> dict[str, Json]:
    """The fields that make the prompt; also all that counting its tokens needs."""
    messages = chat_messages(body, warnings)
    prompt: dict[str, Json] = {"model": a_name(body, "model", ""), "messages": messages}
    tools = chat_tools(body, warnings)
    if tools:
        prompt["tools"] = tools
    kind = optional_object(body, "thinking").get("type")
    if kind in ("enabled", "disabled"):
        prompt["chat_template_kwargs"] = {"enable_thinking": kind == "enabled"}
    if continues(messages):
        prompt |= {"continue_final_message": True, "add_generation_prompt": False}
    return prompt


def chat_request(body: Mapping[str, Json], warnings: Warnings) -> dict[str, Json]:
    request = chat_prompt(body, warnings)
    request |= chat_choice(body, request.get("tools", []))
    request["max_tokens"] = max(limit(body), 1)
    request |= {name: _number(body[name], name) for name in _NUMBERS if body.get(name) is not None}
    stops = stop_sequences(body)
    if stops:
        request["stop"] = stops
    request |= _structure(body) | _user(body)
    if optional_bool(body, "stream"):
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return request


def limit(body: Mapping[str, Json]) -> int:
    """`max_tokens`; 0 asks for a prompt in the cache and no answer."""
    value = body.get("max_tokens")
    if value is None:
        raise missing("max_tokens")
    if type(value) is not int:
        raise invalid("max_tokens", "Input should be a valid integer")
    if value < 0:
        raise invalid("max_tokens", "Input should be greater than or equal to 0")
    return value


def stop_sequences(body: Mapping[str, Json]) -> list[str]:
    stops = optional_list(body, "stop_sequences")
    for index, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise invalid(f"stop_sequences.{index}", "Input should be a string that is not empty")
    return stops


def omits_thinking(body: Mapping[str, Json]) -> bool:
    """Whether the client wants thinking blocks without their text."""
    return optional_object(body, "thinking").get("display") == "omitted"


def _number(value: Json, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise invalid(path, "Input should be a valid number")
    return value


def _structure(body: Mapping[str, Json]) -> dict[str, Json]:
    """`output_config.format`, or `output_format` as it was called before."""
    path, asked = "output_config.format", optional_object(body, "output_config").get("format")
    if asked is None:
        path, asked = "output_format", body.get("output_format")
    if asked is None:
        return {}
    if a_name(an_object(asked, path), "type", path) != "json_schema":
        raise invalid(f"{path}.type", "Input should be 'json_schema'")
    if asked.get("schema") is None:
        raise missing(f"{path}.schema")
    schema = an_object(asked["schema"], f"{path}.schema")
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    }


def _user(body: Mapping[str, Json]) -> dict[str, Json]:
    user = optional_object(body, "metadata").get("user_id")
    return {"user": user} if isinstance(user, str) and user else {}
