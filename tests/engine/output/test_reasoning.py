"""Reasoning: told apart from the answer, in every cut, wherever it begins."""

from __future__ import annotations

import pytest

from engine.output.reasoning import Reasoning, reasoning_for
from engine.output.stream import ChatStream
from engine.output.tools.base import Call, Parsed
from engine.output.tools.hermes import HermesFormat
from tests.engine.output.replay import assert_any_cut

THINK = Reasoning("<think>", "</think>")
CALL = '<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'
RUN = (Call("run", "{}"),)

FROM_THE_START = {
    "none": ("Hello.", Parsed("Hello.")),
    "as models write it": ("<think>\nhm\n</think>\n\nHello.", Parsed("Hello.", reasoning="hm")),
    "without line feeds": ("<think>hm</think>Hello.", Parsed("Hello.", reasoning="hm")),
    "behind blank text": ("\n <think>hm</think>Hello.", Parsed("Hello.", reasoning="hm")),
    "empty": ("<think>\n\n</think>\n\nHello.", Parsed("Hello.")),
    "more line feeds are its own": ("<think>\n\na\n\n</think>\n\n\nb", Parsed("\nb", reasoning="\na\n")),
    "later": ("So <think>hm</think>", Parsed("So <think>hm</think>")),
    "twice": ("<think>a</think>b<think>c</think>", Parsed("b<think>c</think>", reasoning="a")),
    "then a call": (f"<think>hm</think>\n\n{CALL}", Parsed("", RUN, reasoning="hm")),
    "then both": (f"<think>hm</think>\n\nSure.\n{CALL}", Parsed("Sure.", RUN, reasoning="hm")),
    "a call within": (f"<think>{CALL}</think>no", Parsed("no", reasoning=CALL)),
    "cut": ("<think>\nhm\n", Parsed("", reasoning="hm\n")),
    "cut in the end": ("<think>hm</thi", Parsed("", reasoning="hm</thi")),
    "cut in the beginning": ("<thi", Parsed("<thi")),
    "cut behind the beginning": ("<think>", Parsed("")),
}
FROM_WITHIN = {
    "as models write it": ("hm\n</think>\n\nHello.", Parsed("Hello.", reasoning="hm")),
    "begun again": ("<think>\nhm\n</think>\n\nHello.", Parsed("Hello.", reasoning="hm")),
    "nothing": ("</think>Hello.", Parsed("Hello.")),
    "then a call": (f"hm</think>\n{CALL}", Parsed("", RUN, reasoning="hm")),
    "cut": (f"hm\n{CALL}", Parsed("", reasoning=f"hm\n{CALL}")),
}
CASES = [
    pytest.param(inside, *case, id=f"{name}, from {'within' if inside else 'the start'}")
    for inside, cases in ((False, FROM_THE_START), (True, FROM_WITHIN))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("inside", "text", "expected"), CASES)
def test_a_text_is_split_whole_and_in_every_cut(inside, text, expected):
    assert assert_any_cut(HermesFormat(), text, reasoning=THINK, inside=inside) == expected


def test_without_a_style_or_tools_there_is_nothing_to_split():
    assert ChatStream(None).push("<think>a</think>b")[0].content == "<think>a</think>b"
    assert assert_any_cut(None, "<think>a</think>b", reasoning=THINK) == Parsed("b", reasoning="a")


def test_reasoning_is_streamed_as_reasoning_content():
    chat = ChatStream(None, reasoning=THINK)
    pieces = ["<think>\nLet", " me see\n", "</think>\n", "\nHi"]
    deltas = [[delta.as_openai() for delta in chat.push(piece)] for piece in pieces]
    assert deltas == [[{"reasoning_content": "Let"}], [{"reasoning_content": " me see"}], [], [{"content": "Hi"}]]
    assert chat.finish() == []


def test_the_style_follows_the_template():
    assert reasoning_for("{{ '<think>' }} {{ content.split('</think>')[-1] }}") == THINK
    assert reasoning_for("[THINK] [/THINK]") == Reasoning("[THINK]", "[/THINK]", feeds=False)
    assert reasoning_for("chatml") is None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<｜Assistant｜><think>", True),
        ("<|im_start|>assistant\n", False),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("user: what is <think>?\nassistant:", False),
    ],
)
def test_a_prompt_may_begin_the_reasoning(prompt, expected):
    assert THINK.begun_by(prompt) is expected
