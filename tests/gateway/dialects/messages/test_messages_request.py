"""Requests: what becomes of each field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.affinity.keys import session_name
from gateway.dialects.chat import Chat
from gateway.dialects.messages.count import CountTokens, CountWriter
from gateway.dialects.messages.translator import Messages
from tests.gateway.dialects.messages.saying import BODY, PIXEL, TOOL, USE, ask, result, text

RECORDED = Path(__file__).parents[4].parent / "shared" / "wire" / "claude-code.json"
PIXEL_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
FUNCTION = {"type": "function", "function": {"name": "Bash", "description": "runs", "parameters": {"type": "object"}}}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "toolu_1", "type": "function", "function": {"name": "Bash", "arguments": '{"b": "ü", "a": [1, 2.5]}'}}
    ],
}


def said(role, content):
    """The chat messages of one message; a question first, so that an answer is no prefill."""
    asked = {"role": "user", "content": "q"}
    return ask(messages=[asked, {"role": role, "content": content}, asked]).body["messages"][1:-1]


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("a", [{"role": "user", "content": "a"}]),
        (text("a"), [{"role": "user", "content": "a"}]),
        (text("a", "", "b"), [{"role": "user", "content": "a\n\nb"}]),
        (
            [*text("a", "b"), PIXEL, LINK, *text("c")],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a\n\nb"},
                        PIXEL_PART,
                        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                        {"type": "text", "text": "c"},
                    ],
                }
            ],
        ),
        (
            [{"type": "document", "title": "T", "context": None, "source": {"type": "text", "data": "body"}}],
            [{"role": "user", "content": "T\n\nbody"}],
        ),
        (
            [{"type": "document", "source": {"type": "content", "content": text("x", "y")}}],
            [{"role": "user", "content": "x\n\ny"}],
        ),
        (
            [{"type": "search_result", "title": "T", "source": "S", "content": text("x")}],
            [{"role": "user", "content": "T\n\nS\n\nx"}],
        ),
        (
            [result("one"), {**result(text("x", "y")), "tool_use_id": "toolu_2"}, *text("then", "more")],
            [
                {"role": "tool", "tool_call_id": "toolu_1", "content": "one"},
                {"role": "tool", "tool_call_id": "toolu_2", "content": "x\n\ny"},
                {"role": "user", "content": "then\n\nmore"},
            ],
        ),
        (
            [*text("first"), result(None)],
            [{"role": "user", "content": "first"}, {"role": "tool", "tool_call_id": "toolu_1", "content": ""}],
        ),
        (
            [result("no such file", is_error=True)],
            [{"role": "tool", "tool_call_id": "toolu_1", "content": "Error: no such file"}],
        ),
        (
            [result([PIXEL], is_error=True)],
            [
                {
                    "role": "tool",
                    "tool_call_id": "toolu_1",
                    "content": [{"type": "text", "text": "Error: "}, PIXEL_PART],
                }
            ],
        ),
        (
            [result([{"type": "tool_reference", "tool_name": "Grep"}])],
            [{"role": "tool", "tool_call_id": "toolu_1", "content": "The tool Grep is available."}],
        ),
    ],
)
def test_user_turns(content, messages):
    assert said("user", content) == messages


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("a", [{"role": "assistant", "content": "a"}]),
        (text("a", " b"), [{"role": "assistant", "content": "a b"}]),
        ([USE], [CALLED]),
        ([*text("a"), USE], [{**CALLED, "content": "a"}]),
        (
            [{"type": "thinking", "thinking": "t", "signature": "another's"}, *text("a")],
            [{"role": "assistant", "content": "a", "reasoning_content": "t"}],
        ),
        ([{"type": "thinking", "thinking": "", "signature": "another's"}], []),
        ([{"type": "thinking", "thinking": "", "signature": "sapwood.1.no base64"}], []),
        ([{"type": "redacted_thinking", "data": "x"}, *text("a")], [{"role": "assistant", "content": "a"}]),
        (
            [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, *text("a")],
            [{"role": "assistant", "content": "a"}],
        ),
        ([{"type": "compaction", "content": "a"}], [{"role": "assistant", "content": "a"}]),
        ([], []),
        ("", []),
    ],
)
def test_answers_in_the_history(content, messages):
    assert said("assistant", content) == messages


def test_system_prompt_and_late_system_messages_stay_in_place():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "late"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": text("x", "y")},
    ]
    assert ask(system=text("header: 1;", "you are"), messages=messages).body["messages"] == [
        {"role": "system", "content": "header: 1;\n\nyou are"},
        {"role": "user", "content": "a"},
        {"role": "system", "content": "late"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "x\n\ny"},
    ]
    assert ask(system="s").body["messages"][0] == {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("last", "goes_on"),
    [
        ("The answer is", True),
        (text("The answer is"), True),
        ([], False),
        ([USE], False),
        ([*text("a"), USE], False),
        ([{"type": "thinking", "thinking": "t", "signature": ""}], False),
    ],
)
def test_a_last_message_of_the_assistant_is_continued(last, goes_on):
    body = ask(messages=[*BODY["messages"], {"role": "assistant", "content": last}]).body
    assert (body.get("continue_final_message", False), body.get("add_generation_prompt", True)) == (
        goes_on,
        not goes_on,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0, "top_p": 0.5, "top_k": 4}, {"temperature": 0, "top_p": 0.5, "top_k": 4}),
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"stop_sequences": []}, {}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"metadata": {}}, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"chat_template_kwargs": {"enable_thinking": True}}),
        ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ({"thinking": {"type": "adaptive"}}, {}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False, "service_tier": "auto", "context_management": {"edits": []}, "betas": ["x"], "y": 1}, {}),
        ({"tools": [TOOL]}, {"tools": [FUNCTION]}),
        ({"tools": [{**TOOL, "type": "custom", "defer_loading": True, "cache_control": {}}]}, {"tools": [FUNCTION]}),
        ({"tools": [TOOL, TOOL]}, {"tools": [FUNCTION]}),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tools": [FUNCTION], "tool_choice": "auto"}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": [FUNCTION], "tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": [FUNCTION], "tool_choice": "none"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "Bash", "disable_parallel_tool_use": True}},
            {
                "tools": [FUNCTION],
                "tool_choice": {"type": "function", "function": {"name": "Bash"}},
                "parallel_tool_calls": False,
            },
        ),
        ({"tool_choice": {"type": "auto"}}, {}),
    ],
)
def test_fields(fields, expected):
    plain = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "go"}]}
    assert ask(**fields).body == plain | expected


@pytest.mark.parametrize("form", ["output_config", "output_format"])
def test_structured_output(form):
    asked = {"type": "json_schema", "schema": {"type": "object"}}
    fields = {form: {"effort": "high", "format": asked} if form == "output_config" else asked}
    json_schema = ask(**fields).body["response_format"]["json_schema"]
    assert (json_schema["schema"], json_schema["strict"]) == ({"type": "object"}, True)


def test_strict_tools_stay_strict():
    assert ask(tools=[{**TOOL, "strict": True}]).body["tools"][0]["function"]["strict"] is True


def test_tools_without_a_schema_are_dropped_with_a_warning():
    server = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    exchange = ask(tools=[server, TOOL, {"type": "bash_20250124", "name": "bash"}], tool_choice={"type": "any"})
    assert exchange.body["tools"] == [FUNCTION]
    assert [warning.split(":")[0] for warning in exchange.warnings] == [
        "dropped the tool web_search (web_search_20250305)",
        "dropped the tool bash (bash_20250124)",
    ]
    assert "tools" not in ask(tools=[server]).body


def test_tools_that_the_conversation_defines_come_last():
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {**TOOL, "name": "Late"}}}
    known = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Bash"}}
    exchange = ask(tools=[TOOL], messages=[*BODY["messages"], {"role": "system", "content": [added, known]}])
    assert [tool["function"]["name"] for tool in exchange.body["tools"]] == ["Bash", "Late"]
    assert (len(exchange.body["messages"]), exchange.warnings) == (1, ())


def test_warnings_fit_into_a_header():
    blocks = [{"type": f"new\r\nkind ü {n}" + "x" * 300} for n in range(50)]
    warnings = ask(messages=[{"role": "user", "content": [*blocks, *text("a")]}]).warnings
    assert 0 < len(warnings) <= 8
    assert all(len(warning) <= 120 and warning.isascii() and warning.isprintable() for warning in warnings)


def test_the_session_is_known_by_the_user_where_no_header_names_it():
    user = json.dumps({"device_id": "d", "session_id": "s"})
    conversation = Chat().parse(ask(metadata={"user_id": user}).body)
    assert session_name(conversation, {}) == user
    assert session_name(conversation, {"x-claude-code-session-id": "s"}) == "s/"


def test_counting_needs_the_prompt_only():
    body = {
        "model": "m",
        "system": "s",
        "messages": BODY["messages"],
        "tools": [TOOL],
        "thinking": {"type": "disabled"},
    }
    counted = CountTokens().exchange(body).body
    asked = Messages().exchange({**body, "max_tokens": 5, "stream": True, "temperature": 1}).body
    assert counted == {key: asked[key] for key in ("model", "messages", "tools", "chat_template_kwargs")}
    assert json.loads(CountWriter(7).whole({"count": 12})) == {"input_tokens": 12}
    assert json.loads(CountWriter(7).whole({"tokens": []})) == {"input_tokens": 7, "estimated": True}


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded requests are not next to this checkout")
def test_recorded_requests():
    first, second = (Messages().exchange(record["body"]) for record in json.loads(RECORDED.read_text("utf-8")))
    assert first.stream
    assert (first.warnings, second.warnings) == ((), ())
    assert len(first.body["tools"]) == 12
    assert [message["role"] for message in second.body["messages"]] == ["system", "user", "system", "assistant", "tool"]
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert second.body["tools"] == first.body["tools"]
