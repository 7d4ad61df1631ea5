"""A template that opens reasoning, in front of the real model: reasoning, then what the structure says, all kept.

SmolLM2 has never learned to think, so its reasoning is taken to end with the first blank line.
"""

from __future__ import annotations

import json
import time

import openai
import pytest

from engine.output.dialect import Dialect
from engine.output.reasoning import Reasoning
from engine.output.tools.hermes import HermesFormat
from engine.prompt.template import ChatTemplate
from engine.sample.grammar import GrammarCompiler
from engine.server.prepare import Preparer

SOURCE = (
    "{% for m in messages %}<|im_start|>{{ m.role ~ '\n' ~ m.content }}"
    "{% for call in m.tool_calls or [] %}{{ '\n<tool_call>\n' }}"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
    "{{ '\n</tool_call>' }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# tools #}"
)
ANSWER = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}
ASKED = {"role": "user", "content": "Capital of France?"}
TOOLS = [{"type": "function", "function": {"name": "say", "parameters": ANSWER}}]


@pytest.fixture
def thinking(service, monkeypatch):
    """The running service with another template; what its clients ask for besides."""
    own = service.preparer
    dialect = Dialect(HermesFormat(), Reasoning("<think>", "\n\n"))
    template = ChatTemplate(SOURCE, own.tokenizer.bos, own.tokenizer.eos, dialect.tools)
    ids = own.tokenizer.eos_ids
    compiler = GrammarCompiler(own.tokenizer, own.compiler.vocab_size, ids, shown=dialect.markers)
    preparer = Preparer(own.tokenizer, template, dialect, compiler, own.limits, own.transcript)
    monkeypatch.setattr(service, "preparer", preparer)
    return {"model": "smollm2", "temperature": 0, "max_tokens": 300}


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0) as client:
        yield client


STRUCTURES = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": ANSWER}}},
    "ebnf": {"extra_body": {"ebnf": 'root ::= "[" ("1" | "2") "]"'}},
    "regex": {"extra_body": {"regex": '\\{"city": "(Paris|Rome)"\\}'}},
    "choice": {"extra_body": {"structured_outputs": {"choice": ['{"city": "Paris"}', "[]"]}}},
}


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_content_is_the_structure_alone(client, thinking, structure):
    chunks = list(client.chat.completions.create(messages=[ASKED], stream=True, **thinking, **structure))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    content = "".join(delta.content or "" for delta in deltas)
    assert reasoning.strip()
    assert "\n\n" not in reasoning
    assert isinstance(json.loads(content), dict | list)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_structure_or_a_call_behind_reasoning(client, thinking):
    """Also where the call is demanded: then the structure isn't."""
    fields = {**thinking, **STRUCTURES["regex"], "tools": TOOLS}
    for choice in ("auto", "required"):
        answer = client.chat.completions.create(messages=[ASKED], tool_choice=choice, **fields).choices[0]
        assert answer.message.reasoning_content.strip()
        if choice == "required":
            assert not answer.message.content
        if answer.message.tool_calls:
            assert json.loads(answer.message.tool_calls[0].function.arguments).keys() == ANSWER["properties"].keys()
        else:
            assert answer.message.content.startswith('{"city": ')


def test_the_next_turn_hits_the_reasoning(client, thinking):
    fields = {**thinking, "extra_body": {"preserve_reasoning": True, **STRUCTURES["regex"]["extra_body"]}}
    first = client.chat.completions.create(messages=[ASKED], **fields)
    answer = first.choices[0].message.model_dump(exclude_none=True)
    assert answer["reasoning_content"].strip()
    follow = [ASKED, answer, {"role": "user", "content": "Are you sure?"}]
    second = client.chat.completions.create(messages=follow, **fields)
    # The last token only ends the answer; the one before was never computed.
    known = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert second.usage.prompt_tokens_details.cached_tokens >= known - 1
    fields["extra_body"]["preserve_reasoning"] = False
    dropped = client.chat.completions.create(messages=follow, **fields)
    assert dropped.usage.prompt_tokens_details.cached_tokens < first.usage.prompt_tokens
    assert dropped.usage.prompt_tokens < second.usage.prompt_tokens


LONG = "tree and leaf " * 20
NOTE = {"type": "object", "properties": {"text": {"const": LONG}}, "required": ["text"]}
LONG_CALL = {
    "tools": [{"type": "function", "function": {"name": "note", "parameters": NOTE}}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
}


@pytest.mark.parametrize("asked", [{"extra_body": {"regex": LONG}}, LONG_CALL], ids=["answer", "call"])
def test_the_next_prompt_is_computed_before_it_comes(client, service, thinking, asked):
    """Its history is without the reasoning, so nothing of the answer would be in the cache."""
    content = "Capital of France? " * 12
    fields = {**thinking, **asked}
    first = client.chat.completions.create(
        messages=[{"role": "user", "content": content}], extra_headers={"x-sapwood-ahead": "1"}, **fields
    ).choices[0]
    deadline = time.monotonic() + 20
    while not service.idle and time.monotonic() < deadline:
        client.models.list()
    answer = first.message.model_dump(exclude_none=True, exclude={"reasoning_content"})
    told = {"role": "user", "content": "Go on."}
    if calls := first.message.tool_calls:
        told = {"role": "tool", "tool_call_id": calls[0].id, "content": "It is Paris."}
    follow = [{"role": "user", "content": content}, answer, told]
    usage = client.chat.completions.create(messages=follow, **fields).usage
    new = len(service.preparer.tokenizer.encode(told["content"]))
    closing = 10  # the marks of the two messages
    assert usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - new - closing


def test_a_model_without_reasoning_refuses_to_preserve_it(client):
    for keep in (None, False):
        body = {"preserve_reasoning": keep}
        assert client.chat.completions.create(messages=[ASKED], model="smollm2", max_tokens=1, extra_body=body).choices
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(messages=[ASKED], model="smollm2", extra_body={"preserve_reasoning": True})
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "preserve_reasoning")
