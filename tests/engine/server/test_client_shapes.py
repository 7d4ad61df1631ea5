"""What agents and editors send: the smallest bodies with the same fields as theirs, all answered with 200."""

from __future__ import annotations

import json

import pytest

RUN = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a command.",
        "parameters": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "What to run."},
                "timeout": {
                    "anyOf": [
                        {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
                        {"type": "null"},
                    ]
                },
                "limit": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
                "risk": {"type": "string", "enum": ["LOW", "HIGH"]},
                "seconds": {"type": "number", "default": 1},
                "reset": {"type": "boolean"},
                "files": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 5,
                    "items": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": '{"command":"echo hi"}'}}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def system(text="You help."):
    return {"role": "system", "content": text}


def user(text="hi"):
    return {"role": "user", "content": text}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


AFTER_A_CALL = [
    {"role": "assistant", "content": "Running.", "reasoning_content": "hm", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "hi\n"},
]

CHATS = {
    "aider": {
        "messages": [system(), user(), {"role": "assistant", "content": "Ok."}, user("go"), system("Remember.")],
        "stream": True,
        "temperature": 0,
    },
    "aider goes on": {
        "messages": [system(), user(), {"role": "assistant", "content": "def", "prefix": True}],
        "stream": True,
        "temperature": 0,
    },
    "cline": {"messages": [system(), user(), *AFTER_A_CALL], "tools": [RUN], "tool_choice": "auto", **STREAM},
    "opencode, the title": {"messages": [system(), user("a\n"), user("b")], **STREAM},
    "opencode": {"messages": [system(), user(), *AFTER_A_CALL], "tools": [RUN], "tool_choice": "auto", **STREAM},
    "openhands": {
        "messages": [
            {"role": "system", "content": parts("You help.")},
            {"role": "user", "content": parts("hi")},
            {"role": "assistant", "content": parts("Running."), "tool_calls": [CALL]},
            {"role": "tool", "content": parts("hi"), "tool_call_id": "call_1", "name": "run"},
        ],
        "prompt_cache_key": "2fa4671d",
        "reasoning_effort": "high",
        "tools": [RUN],
        "top_k": 40,
    },
    "qwen code": {
        "messages": [system(), {"role": "user", "content": parts("a", "b", "c", "d", "e")}, *AFTER_A_CALL[:1],
                     {"role": "tool", "tool_call_id": "call_1", "content": parts("hi")}],
        "tools": [RUN],
        **STREAM,
    },
    "continue": {
        "messages": [system(), user()],
        "tools": [{**RUN, "function": {**RUN["function"], "strict": False}}],
        "parallel_tool_calls": False,
        "stop": ["</answer>"],
        "prediction": {"type": "content", "content": "x"},
        **STREAM,
    },
    "mini-swe-agent": {
        "messages": [
            user(),
            {"role": "assistant", "content": None, "tool_calls": [CALL], "provider_specific_fields": {"refusal": None}},
            {"role": "tool", "tool_call_id": "call_1", "content": "hi"},
        ],
        "tools": [RUN],
    },
    "open webui": {
        "messages": [{"role": "developer", "content": "You help."}, user(), {"role": "assistant", "content": "He"}],
        "max_completion_tokens": 2,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "stream": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHATS)
def test_a_clients_chat_is_answered(http, name):
    body = {"model": "smollm2", "max_tokens": 2, "seed": 1, **CHATS[name]}
    headers = {"x-session-id": "ses_1", "x-litellm-session-id": "2fa4671d", "x-title": "Client"}
    reply = http.post("/v1/chat/completions", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    if not body.get("stream"):
        assert reply.json()["usage"]["completion_tokens"] >= 1
        return
    events = [line.removeprefix("data: ") for line in reply.text.split("\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert not [chunk for chunk in chunks if "error" in chunk]
    assert any(chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"])


def test_an_editors_completion_is_answered(http):
    """Continue writes the markers into the prompt itself."""
    body = {
        "model": "smollm2",
        "prompt": "<|fim_prefix|>def f(x):\n<|fim_suffix|>\n    return y<|fim_middle|>",
        "max_tokens": 4,
        "temperature": 0.01,
        "stop": [
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|endoftext|>",
            "/src/",
            "#- coding",
            "```",
            "\n",
        ],
        "stream": True,
    }
    reply = http.post("/v1/completions", json=body, headers={"api-key": "x", "x-api-key": "x"})
    assert reply.status_code == 200
    assert reply.text.endswith("data: [DONE]\n\n")
