"""What a chat template says of its model decides how its answers are read and held."""

from __future__ import annotations

import pytest

from engine.output.dialect import dialect_of
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.tool import ChoiceMode, ToolChoice, read_tools

QWEN = "{% if tools %}<tools>{{ tools }}</tools>{% endif %}<tool_call> {{ content.split('</think>')[-1] }} <think>"
RUN = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}]
ANSWER = 'I must run it.\n</think>\n\nNow.\n<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(("prompt", "text"), [("assistant\n<think>\n", ANSWER), ("assistant\n", f"<think>\n{ANSWER}")])
def test_reasoning_content_and_calls_are_told_apart(prompt, text):
    dialect = dialect_of(QWEN)
    assert isinstance(dialect.tools, HermesFormat)
    stream = dialect.stream(read_tools(RUN), dialect.begun(prompt))
    deltas = [delta.as_openai() for letter in text for delta in stream.push(letter)]
    deltas += [delta.as_openai() for delta in stream.finish()]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "I must run it."
    assert "".join(delta.get("content", "") for delta in deltas) == "Now."
    (first, *_) = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert first["function"] == {"name": "run", "arguments": ""}
    assert all(len(delta) == 1 for delta in deltas), "one kind of payload in a delta"


def test_a_model_without_either():
    dialect = dialect_of("{{ messages }}")
    assert isinstance(dialect.tools, FenceFormat)
    assert not dialect.begun("anything <think>")
    tag = dialect.tools.structural_tag(read_tools(RUN), ToolChoice(ChoiceMode.AUTO))
    assert dialect.constrained(tag, False) is tag


def test_reasoning_comes_before_what_is_constrained():
    dialect = dialect_of(QWEN)
    tag = dialect.tools.structural_tag(read_tools(RUN), ToolChoice(ChoiceMode.REQUIRED))
    assert dialect.constrained(tag, True)["format"]["type"] == "sequence"
    assert dialect.constrained(tag, False)["format"]["type"] == "or"
