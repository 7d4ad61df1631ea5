"""All formats: rendering inverts parsing, and deltas do not depend on cuts. Also the cases of fence and Hermes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.output.reasoning import Reasoning
from engine.output.stream import ChatStream
from engine.output.tools.base import Call, Parsed, render_message
from engine.output.tools.deepseek import DeepSeekFormat
from engine.output.tools.fence import FenceFormat, forced_beginning, raw_property
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.llama import LlamaFormat
from engine.output.tools.mistral import MistralFormat
from engine.output.tools.qwen_xml import QwenXmlFormat
from engine.output.tools.tool import Tool
from tests.engine.output.replay import EDIT, TOOLS, assert_any_cut, assert_cut, code, schema
from tests.examples import examples

FENCE, HERMES = FenceFormat(), HermesFormat()
FORMATS = {
    "fence": FENCE,
    "hermes": HERMES,
    "llama": LlamaFormat(),
    "mistral list": MistralFormat(),
    "mistral named": MistralFormat(named=True),
    "deepseek v3": DeepSeekFormat(fenced=True),
    "deepseek v3.1": DeepSeekFormat(),
    "qwen xml": QwenXmlFormat(),
}
EACH_FORMAT = pytest.mark.parametrize("tool_format", FORMATS.values(), ids=FORMATS)
THINK = Reasoning("<think>", "</think>")


# --- the fence format -------------------------------------------------------------------------------------------

FENCE_CASES = {
    "plain": ("hello\n", Parsed("hello\n")),
    "json": ('```read\n{"path": "a"}\n```', Parsed("", (Call("read", '{"path": "a"}'),))),
    "empty object": ("```run\n{}\n```", Parsed("", (Call("run", "{}"),))),
    "empty body": ("```run\n```", Parsed("", (Call("run", "{}"),))),
    "raw": ('```edit\na = "\\n"\n```', Parsed("", (Call("edit", code('a = "\\n"')),))),
    "raw empty": ("```edit\n\n```", Parsed("", (Call("edit", code("")),))),
    "raw that begins with a fence": (
        "```edit\n```\nx\n```",
        Parsed("", (Call("edit", code("```\nx")),)),
    ),
    "raw with a longer line": (
        "```edit\n```python\nx\n```python\n```",
        Parsed("", (Call("edit", code("```python\nx\n```python")),)),
    ),
    "longer fence": (
        "````edit\nx\n```\ny\n````",
        Parsed("", (Call("edit", code("x\n```\ny")),)),
    ),
    "content first": ("Sure.\n```run\n{}\n```", Parsed("Sure.", (Call("run", "{}"),))),
    "blank line first": ("Sure.\n\n```run\n{}\n```", Parsed("Sure.\n", (Call("run", "{}"),))),
    "line feeds first": ("\n\n```run\n{}\n```", Parsed("\n\n", (Call("run", "{}"),))),
    "two calls": (
        "```run\n{}\n```\n```edit\nx\n```",
        Parsed("", (Call("run", "{}"), Call("edit", code("x")))),
    ),
    "text after": ("```run\n{}\n```\nDone.", Parsed("\nDone.", (Call("run", "{}"),))),
    "line feed after": ("```run\n{}\n```\n \n", Parsed("", (Call("run", "{}"),))),
    "other block": ("```python\nx\n```\n", Parsed("```python\nx\n```\n")),
    "longer name": ("```runner\n{}\n```", Parsed("```runner\n{}\n```")),
    "within a line": ("x```run\n{}\n```", Parsed("x```run\n{}\n```")),
    "cut in the opening": ("Sure.\n```ru", Parsed("Sure.\n```ru")),
    "cut in json": ('```read\n{"path": "a', Parsed("", (), Call("read", '{"path": "a'))),
    "cut in raw": ("```edit\ndef f", Parsed("", (), Call("edit", '{"code": "def f'))),
    "cut in the closing": ("```edit\nx\n``", Parsed("", (), Call("edit", '{"code": "x\\n``'))),
    "cut before the body": ("```edit\n", Parsed("", (), Call("edit", '{"code": "'))),
}

HERMES_CALL = '<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'
HERMES_CASES = {
    "plain": ("a < b <tool", Parsed("a < b <tool")),
    "empty object": (HERMES_CALL, Parsed("", (Call("run", "{}"),))),
    "tag within a string": (
        '<tool_call>{"name":"run","arguments":{"cmd":"echo \'</tool_call>\'"}}</tool_call>',
        Parsed("", (Call("run", '{"cmd":"echo \'</tool_call>\'"}'),)),
    ),
    "quotes and braces within a string": (
        '<tool_call>\n{"name": "run", "arguments": {"a": "}\\"]{", "b": [1, {"c": "\\\\"}]}}\n</tool_call>',
        Parsed("", (Call("run", '{"a": "}\\"]{", "b": [1, {"c": "\\\\"}]}'),)),
    ),
    "no space": (
        '<tool_call>{"name":"run","arguments":{"n":1}}</tool_call>',
        Parsed("", (Call("run", '{"n":1}'),)),
    ),
    "arguments first": (
        '<tool_call>\n{"arguments": {"n": 1}, "name": "run"}\n</tool_call>',
        Parsed("", (Call("run", '{"n": 1}'),)),
    ),
    "no arguments": ('<tool_call>{"name": "run"}</tool_call>', Parsed("", (Call("run", "{}"),))),
    "unknown name": (
        '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
        Parsed("", (Call("x", "{}"),)),
    ),
    "content first": (f"Sure.\n{HERMES_CALL}", Parsed("Sure.", (Call("run", "{}"),))),
    "two calls": (f"{HERMES_CALL}\n{HERMES_CALL}", Parsed("", (Call("run", "{}"), Call("run", "{}")))),
    "text after": (f"{HERMES_CALL}\nDone.", Parsed("\nDone.", (Call("run", "{}"),))),
    "not a call": ("<tool_call>hm</tool_call>", Parsed("<tool_call>hm</tool_call>")),
    "not a call, then one": (f"<tool_call> {HERMES_CALL}", Parsed("<tool_call> ", (Call("run", "{}"),))),
    "no value": (
        '<tool_call>{"name": "run", "arguments": }</tool_call>',
        Parsed('<tool_call>{"name": "run", "arguments": }</tool_call>'),
    ),
    "repeated arguments": (
        '<tool_call>{"name": "run", "arguments": {}, "arguments": {"a": 1}}</tool_call>',
        Parsed("", (Call("run", "{}"),)),
    ),
    "spoilt after the arguments": (
        '<tool_call>{"name": "run", "arguments": {} oh',
        Parsed("oh", (Call("run", "{}"),)),
    ),
    "cut in the name": ('Hm\n<tool_call>{"name": "ru', Parsed('Hm\n<tool_call>{"name": "ru')),
    "cut in the arguments": (
        '<tool_call>{"name": "run", "arguments": {"a": "b',
        Parsed("", (), Call("run", '{"a": "b')),
    ),
    "cut in the closing": (
        '<tool_call>{"name": "run", "arguments": {"a": 1}}\n</tool',
        Parsed("", (), Call("run", '{"a": 1}')),
    ),
}

CASES = [
    pytest.param(tool_format, *case, id=f"{type(tool_format).__name__}: {name}")
    for tool_format, cases in ((FENCE, FENCE_CASES), (HERMES, HERMES_CASES))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("tool_format", "text", "expected"), CASES)
def test_a_text_is_parsed_whole_and_in_every_cut(tool_format, text, expected):
    assert assert_any_cut(tool_format, text) == expected


@st.composite
def generated(draw, tool_format):
    """A message as the grammar allows it: content without a trigger, then calls and nothing more."""
    words = st.sampled_from(["a", "\n", "`", "```", "python", " ", "<tool", '"', "\\", "é", "}", "😀", "[TOOL", "<｜"])
    body = draw(st.lists(words, max_size=8).map("".join))
    content = draw(st.lists(words, max_size=6).map("".join))
    arguments = json.dumps({"path": body, "line": 1}, ensure_ascii=False)
    raw = body if "\n```" not in body else "x"
    some = st.sampled_from([Call("run", "{}"), Call("read", arguments), Call("edit", code(raw))])
    calls = draw(st.lists(some, max_size=1 if tool_format.layout.single else 3))
    if calls and content.strip("\n"):
        content = content.removesuffix("\n")
    return content, calls, render_message(tool_format, content, calls, TOOLS)


@EACH_FORMAT
@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_parsing_inverts_rendering(tool_format, data):
    content, calls, text = data.draw(generated(tool_format))
    assert tool_format.parse(text, TOOLS) == Parsed(content, tuple(calls))


def soup(tool_format):
    """Pieces of what the format is made of, in any order."""
    call = tool_format.render_call("read", '{"path": "a"}', TOOLS)
    cuts = st.tuples(st.integers(0, len(call)), st.integers(0, len(call))).map(lambda cut: call[min(cut) : max(cut)])
    layout = tool_format.layout
    marks = [*tool_format.markers, layout.begin, layout.end, layout.between, call, "<function=", "</function>"]
    words = ["```", "`", "run", "edit", "read", "\n", "x", "{}", "{", "}", '"', "\\", " ", ",", ":", "1", ";", "[", "]"]
    words += ['"name"', '"arguments"', '"run"', "<", "\n```\n", "```edit\n", "<parameter=line>", "</parameter>"]
    pieces = st.sampled_from([*marks, *words, "<think>", "</think>"])
    return st.lists(pieces | cuts, max_size=12).map("".join)


@EACH_FORMAT
@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_deltas_are_the_same_for_every_cut(tool_format, data):
    """Whole messages, messages broken off anywhere, and soup; with and without reasoning in front."""
    text = data.draw(generated(tool_format).map(lambda message: message[2]) | soup(tool_format))
    options = data.draw(st.sampled_from([{}, {"reasoning": THINK}, {"reasoning": THINK, "inside": True}]))
    if options:
        text = (
            data.draw(st.sampled_from(["", "\n", "<think>\n", "<think>hm\n</think>\n\n", "hm</think>", "</thi"])) + text
        )
    text = text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))]
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    assert_cut(tool_format, [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)], **options)
    assert_cut(tool_format, list(text), **options)


@EACH_FORMAT
def test_a_long_answer_stays_cheap(tool_format):
    """8,000 characters of a call in 2,000 pieces, each of which parses all again: about a tenth of a second."""
    text = tool_format.layout.begin + tool_format.render_call("edit", code("x = 'a'\n" * 900), TOOLS)
    pieces = [text[i : i + 4] for i in range(0, 8000, 4)]
    chat = ChatStream(tool_format, TOOLS, reasoning=THINK)
    began = time.process_time()
    sent = sum(len(chat.push(piece)) for piece in pieces)
    assert sent > 1000
    assert time.process_time() - began < 2


@EACH_FORMAT
def test_a_call_that_is_cut_is_never_repaired(tool_format):
    text = tool_format.layout.begin + tool_format.render_call("edit", code("a = 1\n"), TOOLS)
    parsed = tool_format.parse(text[: text.index("1")], TOOLS)
    assert parsed == Parsed("", (), Call("edit", '{"code": "a = '))


@EACH_FORMAT
def test_a_description_names_each_tool(tool_format):
    text = tool_format.describe(TOOLS)
    assert all(tool.name in text and tool.description in text for tool in TOOLS)


@given(body=st.text())
def test_any_raw_body_survives_the_history(body):
    text = FENCE.render_call("edit", code(body), TOOLS)
    assert FENCE.parse(text, TOOLS) == Parsed("", (Call("edit", code(body)),))


def test_a_client_may_write_the_arguments_in_its_own_way():
    assert FENCE.render_call("edit", '{"code":"\\u00e9"}', TOOLS) == "```edit\né\n```"
    for arguments in ('{"code": 3}', '{"code": "x", "y": 1}', "not json", "[" * 100_000):
        assert FENCE.render_call("edit", arguments, TOOLS) == f"```edit\n{arguments}\n```"


def test_content_is_not_held_back_without_need():
    chat = ChatStream(FENCE, TOOLS)
    assert [d.content for d in chat.push("abc ")] == ["abc "]
    assert chat.push("\n") == []
    assert [d.content for d in chat.push("`x")] == ["\n`x"]
    plain = ChatStream(None)
    assert [d.content for d in plain.push("```run\n")] == ["```run\n"]
    without_tools = ChatStream(FENCE, ())
    assert [d.content for d in without_tools.push("```run\n")] == ["```run\n"]


def test_arguments_are_streamed_while_they_are_written():
    chat = ChatStream(FENCE, TOOLS, new_id=lambda: "call_0")
    first = chat.push("```edit\ndef f(")
    assert [d.tool.name for d in first if d.tool] == ["edit", None]
    assert [d.tool.arguments for d in chat.push('"')] == ['\\"']
    assert chat.call_ids == ["call_0"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (EDIT.parameters, "code"),
        (schema([], code={"type": "string"}), None),
        (schema(["code"], code={"type": "integer"}), None),
        (schema(["code"], code={"type": "string"}, more={}), None),
        ({}, None),
        ({"properties": [1]}, None),
    ],
)
def test_a_raw_body_is_for_exactly_one_required_string(parameters, expected):
    assert raw_property(Tool("t", "", parameters)) == expected


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"^def add\(", "def add("),
        (r"^def add\([\s\S]*", "def add("),
        (r"^a\.b.*", "a.b"),
        ("^x\n", "x\n"),
        (r"^\d+", ""),
        (r"def", ""),
        (r"^a|b", ""),
        (r"^abc$", ""),
        (r"^ab*", ""),
        ("^x\n```\ny", ""),
        (None, ""),
        (3, ""),
    ],
)
def test_a_forced_beginning_is_a_literal_pattern(pattern, literal):
    assert forced_beginning({"type": "string", "pattern": pattern}) == literal


def test_descriptions_show_each_tool_as_it_is_called():
    text = FENCE.describe(TOOLS)
    for example in ("run: Run the tests.\n```run\n{}\n```", "```edit\n<code>\n```", '"line": <integer, optional>'):
        assert example in text
