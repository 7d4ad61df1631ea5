"""The formats that model families were trained on: what is a call in them, and what isn't."""

from __future__ import annotations

import json

import pytest

from engine.output.stream import ChatStream
from engine.output.tools.base import Call, Parsed
from engine.output.tools.deepseek import DeepSeekFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.llama import LlamaFormat
from engine.output.tools.mistral import MistralFormat
from engine.output.tools.qwen_xml import QwenXmlFormat
from engine.output.tools.tool import Tool
from tests.engine.output.replay import TOOLS, assert_any_cut, code, schema

RUN = Call("run", "{}")
READ = Call("read", '{"path": "a"}')


def called(*calls, content=""):
    return Parsed(content, calls)


def broken_off(name, arguments, *calls):
    return Parsed("", calls, Call(name, arguments))


LLAMA = {
    "a call": ('{"name": "run", "parameters": {}}', called(RUN)),
    "behind the tag": ('<|python_tag|>{"name": "run", "parameters": {}}', called(RUN)),
    "compact": ('{"name":"read","parameters":{"path": "a"}}', called(READ)),
    "with its type": ('{"type": "function", "name": "run", "parameters": {}}', called(RUN)),
    "as arguments": ('{"name": "run", "arguments": {}}', called(RUN)),
    "two": ('{"name": "run", "parameters": {}}; {"name": "run", "parameters": {}}', called(RUN, RUN)),
    "two on two lines": ('{"name": "run", "parameters": {}}\n{"name": "run", "parameters": {}}', called(RUN, RUN)),
    "then text": ('{"name": "run", "parameters": {}}; so', called(RUN, content="; so")),
    "content first": ('Sure.\n{"name": "run", "parameters": {}}', called(RUN, content="Sure.")),
    "within a line": (t := 'x {"name": "run", "parameters": {}}', called(content=t)),
    "not a tool": (t := '{"name": "Ann", "parameters": {"age": 3}}', called(content=t)),
    "other keys": (t := '{"age": 3, "name": "run", "parameters": {}}', called(content=t)),
    "code behind the tag": (t := '<|python_tag|>search.call(query="x")', called(content=t)),
    "no parameters": ('{"name": "run"}', called(RUN)),
    "cut": ('{"name": "read", "parameters": {"path": "a', broken_off("read", '{"path": "a')),
    "cut in the name": (t := '{"name": "re', called(content=t)),
}

MISTRAL = {
    "a list": ('[TOOL_CALLS] [{"name": "run", "arguments": {}}]', called(RUN)),
    "no space": ('[TOOL_CALLS][{"name":"run","arguments":{}}]', called(RUN)),
    "with an id": ('[TOOL_CALLS][{"name": "run", "arguments": {}, "id": "abcdefghi"}]', called(RUN)),
    "two": ('[TOOL_CALLS] [{"name": "run", "arguments": {}}, {"name": "run", "arguments": {}}]', called(RUN, RUN)),
    "unclosed": ('[TOOL_CALLS] [{"name": "run", "arguments": {}}', called(RUN)),
    "cut in the second": (
        '[TOOL_CALLS] [{"name": "run", "arguments": {}}, {"name": "read", "arguments": {"path',
        broken_off("read", '{"path', RUN),
    ),
    "an empty list": (t := "[TOOL_CALLS] []", called(content=t)),
    "named": ('[TOOL_CALLS]read[ARGS]{"path": "a"}', called(READ)),
    "named with an id": ('[TOOL_CALLS]read[CALL_ID]abcdefghi[ARGS]{"path": "a"}', called(READ)),
    "two named": ("[TOOL_CALLS]run[ARGS]{}[TOOL_CALLS]run[ARGS]{}", called(RUN, RUN)),
    "token in a string": (
        '[TOOL_CALLS]read[ARGS]{"path": "[TOOL_CALLS]run[ARGS]{}"}',
        called(Call("read", '{"path": "[TOOL_CALLS]run[ARGS]{}"}')),
    ),
    "content first": ("Sure.\n[TOOL_CALLS]run[ARGS]{}", called(RUN, content="Sure.\n")),
    "text after": ("[TOOL_CALLS]run[ARGS]{} so", called(RUN, content=" so")),
    "no call": (t := "[TOOL_CALLS]hello there", called(content=t)),
    "no object": (t := "[TOOL_CALLS]run[ARGS]3", called(content=t)),
    "cut": ('[TOOL_CALLS]read[ARGS]{"path', broken_off("read", '{"path')),
    "cut in the name": (t := "[TOOL_CALLS]rea", called(content=t)),
    "cut in the id": (t := "[TOOL_CALLS]read[CALL_ID]ab", called(content=t)),
    "cut before the arguments": (t := "[TOOL_CALLS]read[ARGS]", called(content=t)),
}

_V3 = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n```json\n{}\n```<｜tool▁call▁end｜>"
DEEPSEEK_V3 = {
    "a call": (f"<｜tool▁calls▁begin｜>{_V3}<｜tool▁calls▁end｜>", called(RUN)),
    "two": (f"<｜tool▁calls▁begin｜>{_V3}\n{_V3}<｜tool▁calls▁end｜>", called(RUN, RUN)),
    "no section": (_V3, called(RUN)),
    "section not closed": (f"<｜tool▁calls▁begin｜>{_V3}", called(RUN)),
    "content first": (f"Sure.\n\n<｜tool▁calls▁begin｜>{_V3}<｜tool▁calls▁end｜>", called(RUN, content="Sure.\n\n")),
    "another kind": (t := _V3.replace("function", "plugin"), called(content=t)),
    "no object": (t := _V3.replace("{}", "x"), called(content=t)),
    "no fence at the end": (_V3.replace("\n```<", "<"), called(RUN)),
    "cut in the arguments": (_V3.partition("}")[0], broken_off("run", "{")),
    "cut in the fence": (_V3.partition("}")[0] + "}\n``", broken_off("run", "{}")),
    "cut in the header": (t := _V3.partition("json")[0], called(content=t)),
}

_V31 = "<｜tool▁call▁begin｜>run<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
DEEPSEEK = {
    "a call": (f"<｜tool▁calls▁begin｜>{_V31}<｜tool▁calls▁end｜>", called(RUN)),
    "two": (f"<｜tool▁calls▁begin｜>{_V31}{_V31}<｜tool▁calls▁end｜>", called(RUN, RUN)),
    "text after": (f"<｜tool▁calls▁begin｜>{_V31}<｜tool▁calls▁end｜> so", called(RUN, content=" so")),
    "empty section": (t := "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>", called(content=t)),
    "cut": ('<｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": ', broken_off("read", '{"path": ')),
    "cut in the name": (t := "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>re", called(content=t)),
}


def xml(name, *elements):
    return f"<tool_call>\n<function={name}>\n" + "".join(f"{e}\n" for e in elements) + "</function>\n</tool_call>"


PATH, LINE = "<parameter=path>\na\n</parameter>", "<parameter=line>\n1\n</parameter>"
QWEN_XML = {
    "no parameters": (xml("run"), called(RUN)),
    "text": (xml("read", PATH), called(READ)),
    "text and number": (xml("read", PATH, LINE), called(Call("read", '{"path": "a", "line": 1}'))),
    "number that is none": (
        xml("read", LINE.replace("1", "one")),
        called(Call("read", '{"line": "one"}')),
    ),
    "text that is JSON": (
        xml("edit", '<parameter=code>\n{"a": 1}\n</parameter>'),
        called(Call("edit", code('{"a": 1}'))),
    ),
    "line feeds": (xml("edit", "<parameter=code>\n\n a\n\n</parameter>"), called(Call("edit", code("\n a\n")))),
    "empty text": (xml("edit", "<parameter=code>\n\n</parameter>"), called(Call("edit", code("")))),
    "in one line": (
        "<tool_call><function=read><parameter=path>a</parameter></function></tool_call>",
        called(READ),
    ),
    "other elements in the text": (
        xml("edit", "<parameter=code>\n</function></tool_call><b>\n</parameter>"),
        called(Call("edit", code("</function></tool_call><b>"))),
    ),
    "no outer element": (f"<function=read>\n{PATH}\n</function>", called(READ)),
    "outer element closed only": (f"<function=read>\n{PATH}\n</function>\n</tool_call>", called(READ)),
    "two": (f"{xml('run')}\n{xml('run')}", called(RUN, RUN)),
    "content first": (f"Sure.\n{xml('run')}", called(RUN, content="Sure.")),
    "unknown tool": (xml("x", "<parameter=n>\n1\n</parameter>"), called(Call("x", '{"n": 1}'))),
    "no call": (t := "<tool_call>hm</tool_call>", called(content=t)),
    "JSON": (t := '<tool_call>\n{"name": "run"}\n</tool_call>', called(content=t)),
    "function not closed": (f"<tool_call>\n<function=read>\n{PATH}\n</tool_call>", called(READ)),
    "cut in the text": (xml("read", PATH).partition("a\n")[0] + "ab", broken_off("read", '{"path": "ab')),
    "cut in the number": (xml("read", PATH, LINE).partition("1")[0] + "12", broken_off("read", '{"path": "a"')),
    "cut behind a parameter": (xml("read", PATH).partition("</func")[0], broken_off("read", '{"path": "a"')),
    "cut in the closing": (xml("run")[:-3], broken_off("run", "{}")),
}

CASES = [
    pytest.param(tool_format, *case, id=f"{family}: {name}")
    for family, tool_format, cases in (
        ("llama", LlamaFormat(), LLAMA),
        ("mistral", MistralFormat(), MISTRAL),
        ("deepseek v3", DeepSeekFormat(fenced=True), DEEPSEEK_V3),
        ("deepseek v3.1", DeepSeekFormat(), DEEPSEEK),
        ("qwen xml", QwenXmlFormat(), QWEN_XML),
    )
    for name, case in cases.items()
]


@pytest.mark.parametrize(("tool_format", "text", "expected"), CASES)
def test_a_text_is_parsed_whole_and_in_every_cut(tool_format, text, expected):
    assert assert_any_cut(tool_format, text) == expected


PROPERTIES = {
    "flag": {"type": "boolean"},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "pick": {"enum": ["a", "1"]},
    "size": {"type": ["integer", "string"]},
    "list": {"$ref": "#/$defs/list"},
    "any": {},
}
TYPED = Tool("typed", "", {**schema([], **PROPERTIES), "$defs": {"list": {"type": "array"}}})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("flag", "true", True),
        ("flag", "True", True),
        ("flag", "yes", "yes"),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "1", "1"),
        ("pick", "1", "1"),
        ("size", "12", 12),
        ("size", "12.5", "12.5"),
        ("size", "12 kB", "12 kB"),
        ("list", '["a", {"b": NaN}]', '["a", {"b": NaN}]'),
        ("list", '\n["a"]\n', ["a"]),
        ("any", '{"a": [1]}', {"a": [1]}),
        ("any", "plain", "plain"),
        ("any", "[" * 100_000, "[" * 100_000),
        ("other", "1", 1),
    ],
)
def test_an_xml_value_is_what_its_schema_says(key, text, value):
    message = xml("typed", f"<parameter={key}>\n{text}\n</parameter>")
    (call,) = QwenXmlFormat().parse(message, [TYPED]).calls
    assert json.loads(call.arguments) == {key: value}


def test_xml_text_is_streamed_while_it_is_written():
    chat = ChatStream(QwenXmlFormat(), TOOLS)
    chat.push(xml("edit", "<parameter=code>\ndef f").removesuffix("\n</function>\n</tool_call>"))
    assert [d.tool.arguments for d in chat.push('("')] == ['(\\"']
    assert chat.push("\n</para") == []
    assert [d.tool.arguments for d in chat.push("\n")] == ["\\n</para"]


def test_ids_are_those_that_the_templates_accept():
    chat = ChatStream(MistralFormat(named=True), TOOLS)
    chat.push("[TOOL_CALLS]run[ARGS]{}[TOOL_CALLS]run[ARGS]{}")
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in chat.call_ids)
    assert len(set(chat.call_ids)) == 2
    other = ChatStream(HermesFormat(), TOOLS)
    other.push('<tool_call>{"name": "run", "arguments": {}}</tool_call>')
    assert other.call_ids[0].startswith("call_")
