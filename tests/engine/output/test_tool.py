"""`tools` and `tool_choice` as they come from clients."""

from __future__ import annotations

import pytest

from engine.errors import RequestError
from engine.output.tools import format_for
from engine.output.tools.deepseek import DeepSeekFormat
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.llama import LlamaFormat
from engine.output.tools.mistral import MistralFormat
from engine.output.tools.qwen_xml import QwenXmlFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice, read_choice, read_tools

TOOLS = (Tool("run"), Tool("edit"))


def function(**fields):
    return {"type": "function", "function": fields}


def test_a_tool_is_read():
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    raw = function(name="run-1", description="Runs.", parameters=parameters, strict=True)
    (tool,) = read_tools([raw])
    assert tool == Tool("run-1", "Runs.", parameters, strict=True)
    assert tool.as_openai()["function"]["parameters"] == parameters
    (bare,) = read_tools([function(name="run", description=None)])
    assert bare.parameters == {"type": "object", "properties": {}}
    assert read_tools(None) == read_tools([]) == ()


@pytest.mark.parametrize(
    ("tools", "code", "param"),
    [
        ({}, "invalid_value", "tools"),
        ([3], "invalid_value", "tools[0]"),
        ([{"type": "web_search"}], "invalid_value", "tools[0]"),
        ([{"type": "function"}], "invalid_value", "tools[0].function"),
        ([function(name="a b")], "invalid_value", "tools[0].function.name"),
        ([function(name="x\n```")], "invalid_value", "tools[0].function.name"),
        ([function(name="x"), function(name="x")], "invalid_value", "tools[1].function.name"),
        ([function(name="x", description=3)], "invalid_value", "tools[0].function.description"),
        ([function(name="x", parameters=[])], "invalid_value", "tools[0].function.parameters"),
        (
            [function(name="x", parameters={"type": "objekt"})],
            "invalid_schema",
            "tools[0].function.parameters",
        ),
    ],
)
def test_a_bad_tool_is_named(tools, code, param):
    with pytest.raises(RequestError) as caught:
        read_tools(tools)
    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize(
    ("value", "tools", "expected"),
    [
        (None, TOOLS, ToolChoice(ChoiceMode.AUTO)),
        (None, (), ToolChoice(ChoiceMode.NONE)),
        ("auto", (), ToolChoice(ChoiceMode.NONE)),
        ("none", TOOLS, ToolChoice(ChoiceMode.NONE)),
        ("required", TOOLS, ToolChoice(ChoiceMode.REQUIRED)),
        (function(name="edit"), TOOLS, ToolChoice(ChoiceMode.NAMED, "edit")),
        ({"type": "function", "name": "edit"}, TOOLS, ToolChoice(ChoiceMode.NAMED, "edit")),
    ],
)
def test_a_choice_is_read(value, tools, expected):
    assert read_choice(value, tools) == expected


@pytest.mark.parametrize(
    ("value", "tools"),
    [("sometimes", TOOLS), ({}, TOOLS), (["auto"], TOOLS), (function(name="x"), TOOLS), ("required", ())],
)
def test_a_bad_choice_is_named(value, tools):
    with pytest.raises(RequestError) as caught:
        read_choice(value, tools)
    assert caught.value.param == "tool_choice"


def test_a_strict_tool_must_be_enforceable():
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 3}}}
    read_tools([function(name="x", parameters=parameters)])
    with pytest.raises(RequestError) as caught:
        read_tools([function(name="x", parameters=parameters, strict=True)])
    assert (caught.value.code, caught.value.param) == ("invalid_schema", "tools[0].function.parameters")
    assert "properties.n" in str(caught.value) or "/properties/n" in str(caught.value)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("... <tool_call> ...", HermesFormat()),
        ("<tool_call>\n<function=' + name", QwenXmlFormat()),
        ("<|python_tag|>", LlamaFormat()),
        ('<|start_header_id|> {"name": "\' + name + \'", "parameters": \'', LlamaFormat()),
        ("[TOOL_CALLS] [", MistralFormat(space=" ")),
        ("[TOOL_CALLS][", MistralFormat()),
        ("'[TOOL_CALLS]' + name + '[ARGS]'", MistralFormat(named=True)),
        ("<｜tool▁calls▁begin｜> ```json", DeepSeekFormat(fenced=True)),
        ("<｜tool▁calls▁begin｜>", DeepSeekFormat()),
        ("<|start_header_id|>", FenceFormat()),
        ("chatml", FenceFormat()),
    ],
)
def test_the_format_follows_the_template(template, expected):
    found = format_for(template)
    assert type(found) is type(expected)
    assert found.render_call("run", "{}") == expected.render_call("run", "{}")
    assert found.layout == expected.layout
