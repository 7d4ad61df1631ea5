"""The grammars of all formats, over an alphabet of single bytes: what a model can write under each `tool_choice`."""

from __future__ import annotations

import json

import pytest
import xgrammar

from engine.output.reasoning import Reasoning
from engine.output.tools.base import Call, render_message
from engine.output.tools.deepseek import DeepSeekFormat
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.llama import LlamaFormat
from engine.output.tools.mistral import MistralFormat
from engine.output.tools.qwen_xml import QwenXmlFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice
from tests.engine.output.replay import TOOLS, code, schema

FORMATS = {
    "fence": FenceFormat(),
    "hermes": HermesFormat(),
    "llama": LlamaFormat(),
    "mistral list": MistralFormat(space=" "),
    "mistral named": MistralFormat(named=True),
    "deepseek v3": DeepSeekFormat(fenced=True),
    "deepseek v3.1": DeepSeekFormat(),
    "qwen xml": QwenXmlFormat(),
}
EACH_FORMAT = pytest.mark.parametrize("tool_format", FORMATS.values(), ids=FORMATS)
AUTO, REQUIRED = ToolChoice(ChoiceMode.AUTO), ToolChoice(ChoiceMode.REQUIRED)
NAMED, NONE = ToolChoice(ChoiceMode.NAMED, "edit"), ToolChoice(ChoiceMode.NONE)
RUN, EDIT = Call("run", "{}"), Call("edit", code("a = 1"))
READ, WRONG = Call("read", '{"path": "a", "line": 2}'), Call("read", '{"line": 2}')
THINK = Reasoning("<think>", "</think>")
END = 256


@pytest.fixture(scope="module")
def compiler():
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
    return xgrammar.GrammarCompiler(info, max_threads=1)


@pytest.fixture
def allowed(compiler):
    def check(tag, text):
        matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(json.dumps(tag)))
        return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.accept_token(END)

    return check


@EACH_FORMAT
def test_a_choice_holds(tool_format, allowed):
    def ok(choice, content, *calls, parallel=True):
        tag = tool_format.structural_tag(TOOLS, choice, parallel)
        return allowed(tag, render_message(tool_format, content, calls, TOOLS))

    several = not tool_format.layout.single
    assert ok(AUTO, "Hello {[<` there.")
    for calls in [(RUN,), (EDIT,), (READ,)]:
        assert ok(AUTO, "", *calls)
        assert ok(AUTO, "Sure.", *calls)
        assert ok(REQUIRED, "", *calls)
        assert not ok(REQUIRED, "Sure.", *calls)
    assert ok(AUTO, "", RUN, EDIT) is several
    assert ok(REQUIRED, "", RUN, EDIT, READ) is several
    assert not ok(AUTO, "", RUN, EDIT, parallel=False)
    assert not ok(AUTO, "", WRONG)
    assert not ok(AUTO, "Sure.", WRONG)
    assert not ok(REQUIRED, "Hello.")
    assert not ok(REQUIRED, "")
    assert ok(NAMED, "", EDIT)
    assert not ok(NAMED, "", RUN)
    assert not ok(NAMED, "", EDIT, EDIT)
    assert tool_format.structural_tag(TOOLS, NONE) is None
    assert tool_format.structural_tag((), AUTO) is None


@EACH_FORMAT
def test_nothing_follows_a_call(tool_format, allowed):
    text = render_message(tool_format, "", [RUN], TOOLS)
    for choice in (AUTO, REQUIRED):
        tag = tool_format.structural_tag(TOOLS, choice)
        assert not allowed(tag, f"{text} so")
        assert not allowed(tag, text[:-1])


@EACH_FORMAT
@pytest.mark.parametrize("choice", [AUTO, REQUIRED], ids=["auto", "required"])
def test_reasoning_may_hold_anything_and_comes_first(tool_format, choice, allowed):
    text = render_message(tool_format, "", [RUN], TOOLS)
    tag = tool_format.structural_tag(TOOLS, choice)
    free = THINK.constrain(tag, inside=False)
    for answer in (text, f"<think>\nhm\n</think>\n\n{text}", f"<think>{text}</think>{text}"):
        assert allowed(free, answer)
    assert not allowed(free, f"<think>hm\n{text}")
    within = THINK.constrain(tag, inside=True)
    assert allowed(within, f"hm {text}\n</think>\n\n{text}")
    assert not allowed(within, text)
    assert allowed(within, "hm</think>\n\nHello.") is (choice is AUTO)


def test_llama_may_answer_with_json(allowed):
    tag = FORMATS["llama"].structural_tag(TOOLS, AUTO)
    assert allowed(tag, '{"name": "Ann", "parameters": {"age": 3}}')
    assert not allowed(tag, '{"name":"run", "oh": 1}')


def test_an_xml_value_cannot_hold_what_ends_it(allowed):
    name = {"type": "string", "maxLength": 40}
    tool = Tool("tag", "", schema(["name", "list"], name=name, list={"type": "array", "items": {"type": "string"}}))
    tag = FORMATS["qwen xml"].structural_tag([tool], REQUIRED)

    def ok(name, item):
        arguments = json.dumps({"name": name, "list": [item]})
        return allowed(tag, FORMATS["qwen xml"].render_call("tag", arguments))

    assert ok("a\n<b>", "c")
    assert not ok("a</parameter>", "c")
    assert not ok("a", "</parameter>")
