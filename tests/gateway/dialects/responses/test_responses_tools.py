"""Tools: namespaces are flattened and restored, custom tools keep their text, hosted ones are dropped."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response

from gateway.dialects.responses.freeform import InputReader, arguments_of, head_style
from gateway.dialects.responses.names import Names, Origin
from gateway.errors import GatewayError
from tests.gateway.dialects.responses.speaking import TOOLS, WORDS, answer, ask, call, cuts

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
ORIGINS = st.builds(Origin, st.sampled_from(["f", "a__f", "x" * 70]), st.none() | st.sampled_from(["a", "b.c", "a__a"]))


def offered(exchange):
    return [tool["function"]["name"] for tool in exchange.body.get("tools", [])]


def restored(tools, name, arguments="{}"):
    return json.loads(ask(tools=tools).answer.whole(answer(calls=[call(1, arguments, name)])))["output"][0]


def test_a_function_is_offered_as_it_is():
    tool = {"type": "function", "name": "f", "description": "d", "strict": True, "parameters": {"type": "object"}}
    function = {"name": "f", "description": "d", "strict": True, "parameters": {"type": "object"}}
    assert ask(tools=[tool]).body["tools"] == [{"type": "function", "function": function}]


def test_a_namespace_is_flattened_and_restored():
    assert offered(ask(tools=TOOLS)) == ["run", "mcp__find", "apply_patch"]
    item = restored(TOOLS, "mcp__find")
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "mcp", "find")
    assert "namespace" not in restored(TOOLS, "run")


def test_a_call_in_the_history_has_the_flat_name():
    item = {"type": "function_call", "namespace": "mcp", "name": "find", "arguments": "{}", "call_id": "c"}
    for tools in (TOOLS, []):
        (message,) = ask(input=[item], tools=tools).body["messages"]
        assert message["tool_calls"][0]["function"]["name"] == "mcp__find"


@given(st.lists(ORIGINS, max_size=8))
def test_flat_names_are_unique_and_lead_back(origins):
    names = Names(origins)
    flat = {origin: names.flat(origin) for origin in origins}
    assert len(set(flat.values())) == len(set(origins))
    assert all(names.origin(name) == origin for origin, name in flat.items())
    assert all(LEGAL.fullmatch(name) for origin, name in flat.items() if origin.namespace is not None)
    assert all(name == origin.name for origin, name in flat.items() if origin.namespace is None)


@given(st.lists(ORIGINS, min_size=1, max_size=6, unique=True).flatmap(st.permutations))
def test_a_plain_tools_order_does_not_rename_others(origins):
    clash = Origin("a__f")
    assert Names([clash, *origins]).flat(origins[0]) == Names([*origins, clash]).flat(origins[0])


def test_hosted_tools_are_dropped_with_a_warning():
    hosted = [{"type": kind} for kind in ("web_search", "local_shell", "bad\r\nheader: x")]
    exchange = ask(tools=[*hosted, {"type": "function", "name": "f"}], tool_choice={"type": "web_search"})
    assert offered(exchange) == ["f"]
    assert "tool_choice" not in exchange.body
    assert set(exchange.warnings) == {
        *("tool web_search dropped", "tool local_shell dropped", "tool unknown dropped"),
        "tool_choice of a hosted tool ignored",
    }


def test_without_tools_nothing_is_said_of_them():
    body = ask(tools=[{"type": "web_search"}], tool_choice="auto", parallel_tool_calls=True).body
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


@pytest.mark.parametrize(
    ("choice", "chat", "names"),
    [
        ("auto", "auto", ["run", "mcp__find", "apply_patch"]),
        ("none", "none", ["run", "mcp__find", "apply_patch"]),
        ("required", "required", ["run", "mcp__find", "apply_patch"]),
        ({"type": "function", "name": "run"}, "run", ["run", "mcp__find", "apply_patch"]),
        ({"type": "function", "name": "find"}, "mcp__find", ["run", "mcp__find", "apply_patch"]),
        ({"type": "function", "name": "find", "namespace": "mcp"}, "mcp__find", ["run", "mcp__find", "apply_patch"]),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch", ["run", "mcp__find", "apply_patch"]),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "run"}, {"type": "web_search"}],
            },
            "required",
            ["run"],
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "none", ["run", "mcp__find", "apply_patch"]),
    ],
)
def test_tool_choice(choice, chat, names):
    exchange = ask(tools=TOOLS, tool_choice=choice)
    got = exchange.body["tool_choice"]
    assert (got if isinstance(got, str) else got["function"]["name"]) == chat
    assert offered(exchange) == names
    assert Response.model_validate_json(exchange.answer.whole(answer("a"))).tool_choice is not None


@pytest.mark.parametrize(
    ("tools", "choice", "param"),
    [
        (TOOLS, "sometimes", "tool_choice"),
        (TOOLS, {"type": "function", "name": "gone"}, "tool_choice.name"),
        (TOOLS, {"type": "function"}, "tool_choice.name"),
        ([], "required", "tool_choice"),
        (TOOLS, {"type": "allowed_tools", "mode": "required", "tools": []}, "tool_choice"),
    ],
)
def test_an_impossible_choice_is_refused(tools, choice, param):
    with pytest.raises(GatewayError) as caught:
        ask(tools=tools, tool_choice=choice)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_custom_tool_is_a_function_with_one_string():
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    tools = [{"type": "custom", "name": "patch", "description": "Edits.", "format": grammar}]
    function = ask(tools=tools).body["tools"][0]["function"]
    assert function["parameters"]["required"] == ["input"]
    assert function["description"].startswith("Edits.")
    assert "start: WORD" in function["description"]
    item = restored(tools, "patch", '{"input": "+ \\u00e9\\n"}')
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", "+ é\n")


@given(st.text(st.characters(codec="utf-8")), st.sampled_from([": ", ":"]), st.booleans(), cuts())
def test_the_input_is_read_whatever_the_cuts(text, colon, escaped, cut):
    raw = f'{{"input"{colon}{json.dumps(text, ensure_ascii=escaped)}}}'
    reader = InputReader(head_style(raw, whole=True))
    got = "".join(map(reader.read, cut(raw)))
    assert got.encode("utf-16", "surrogatepass").decode("utf-16") == text
    assert reader.ended


@given(WORDS)
def test_arguments_without_an_id_are_written_the_usual_way(text):
    assert arguments_of(text, None) == json.dumps({"input": text}, ensure_ascii=False)


@pytest.mark.parametrize("raw", ['{"input": "a\\', '{"input": "a\\u00', '{"input": "a'])
def test_a_custom_call_that_was_cut_keeps_what_was_said(raw):
    whole = answer(calls=[call(1, raw, "apply_patch")], finish="length")
    (item,) = json.loads(ask(tools=TOOLS).answer.whole(whole))["output"]
    assert (item["input"], item["status"]) == ("a", "incomplete")
