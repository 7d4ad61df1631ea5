"""What a client sends back extends the messages of the turn before by what the upstream said, to the letter."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gateway.dialects.responses.speaking import TOOLS, answers, ask, call_delta, chunked, cuts, delta, streamed

REASONING = st.sampled_from([{}, {"summary": "auto"}])
INCLUDE = st.sampled_from([[], ["reasoning.encrypted_content"]])
FIELDS = st.fixed_dictionaries({"reasoning": REASONING, "include": INCLUDE})


def said(answer):
    """The upstream's message as it has to stand in the next request."""
    message = dict(answer["choices"][0]["message"])
    if message["content"] is None and not message.get("tool_calls"):
        message["content"] = ""
    return message


def outputs(items):
    """Results of all calls, as a client adds them behind."""
    kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    made = [item for item in items if item["type"] in kinds]
    return [{"type": kinds[item["type"]], "call_id": item["call_id"], "output": "done"} for item in made]


def turns(fields, said_so_far, take):
    """Ask with a growing input; after each turn the items of `take(exchange, answer)` are put behind it."""
    items = [{"role": "user", "content": "go"}]
    before = None
    for answer in said_so_far:
        exchange = ask(input=items, tools=TOOLS, **fields)
        if before is not None:
            assert exchange.body["messages"][: len(before)] == before
        taken = take(exchange, answer)
        items = items + taken
        after = ask(input=items, tools=TOOLS, **fields).body["messages"]
        assert after == [*exchange.body["messages"], said(answer)]
        items = [*items, *outputs(taken), {"role": "user", "content": [{"type": "input_text", "text": "on"}]}]
        before = after


@settings(max_examples=examples(100))
@given(FIELDS, st.lists(answers(), min_size=1, max_size=3))
def test_whole_answers_come_back_exactly(fields, conversation):
    turns(fields, conversation, lambda exchange, answer: json.loads(exchange.answer.whole(answer))["output"])


@settings(max_examples=examples(100))
@given(FIELDS, st.lists(answers(), min_size=1, max_size=3), cuts())
def test_streamed_answers_come_back_exactly(fields, conversation, cut):
    def take(exchange, answer):
        done = streamed(exchange, chunked(answer, cut))
        return [event["item"] for event in done if event["type"] == "response.output_item.done"]

    turns(fields, conversation, take)


@given(answers())
def test_reasoning_survives_clients_that_keep_only_the_sealed_text(answer):
    fields = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    exchange = ask(tools=TOOLS, **fields)
    items = json.loads(exchange.answer.whole(answer))["output"]
    kept = [{**item, "summary": []} if item["type"] == "reasoning" else item for item in items]
    back = ask(input=[{"role": "user", "content": "go"}, *kept], tools=TOOLS, **fields)
    assert back.body["messages"] == [{"role": "user", "content": "go"}, said(answer)]


def test_text_between_calls_joins_the_same_message():
    chunks = [
        delta(content="a"),
        call_delta(0, "{}", id="c0", name="run"),
        delta(content="b"),
        delta(reasoning_content="t"),
        call_delta(1, "{}", id="c1", name="run"),
    ]
    done = [event["item"] for event in streamed(ask(), chunks) if event["type"] == "response.output_item.done"]
    kinds = [item["type"] for item in done]
    assert kinds == ["message", "function_call", "message", "reasoning", "function_call"]
    _, back = ask(input=[{"role": "user", "content": "go"}, *done]).body["messages"]
    assert (back["content"], back["reasoning_content"]) == ("ab", "t")
    assert [made["id"] for made in back["tool_calls"]] == ["c0", "c1"]
