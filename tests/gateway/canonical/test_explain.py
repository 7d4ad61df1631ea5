"""How a request stands to the one before: extended, repeated, branched or broken, and where exactly."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.canonical.chain import digest_chain
from gateway.canonical.explain import Turn, compare
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from tests.examples import examples

HEAD = {"role": "system", "content": "You are a careful engineer. " * 8}
WORDS = st.text(min_size=1, max_size=40)


def chain(*messages, **fields):
    return digest_chain("t", Chat().parse({"model": "m", "messages": [HEAD, *messages], **fields}))


def talk(texts):
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=4))
@settings(max_examples=examples(200))
def test_appending_is_an_extension(texts, more):
    old, new = chain(*talk(texts)), chain(*talk([*texts, *more]))
    found = compare(old, new)
    assert found.turn is (Turn.EXTENDED if more else Turn.REGENERATED)
    assert (found.shared, found.broken) == (old.size, None)


@given(st.lists(WORDS, min_size=2, max_size=6), st.data())
@settings(max_examples=examples(200))
def test_an_earlier_point_is_a_branch(texts, data):
    kept = data.draw(st.integers(1, len(texts) - 1))
    found = compare(chain(*talk(texts)), chain(*talk(texts[:kept])))
    assert found.turn is Turn.BRANCHED
    assert found.broken is None


@given(st.lists(WORDS, min_size=5, max_size=7), st.data())
@settings(max_examples=examples(400))
def test_an_edit_is_found_where_it_is(texts, data):
    """Whatever the class: the message, the field, and the byte at which the first other character begins."""
    index = data.draw(st.integers(0, len(texts) - 3))
    old = texts[index]
    at = data.draw(st.integers(0, len(old)))
    new = old[:at] + data.draw(WORDS) + old[at + data.draw(st.integers(0, len(old) - at)) :]
    if new == old:
        return
    edited = [*texts[:index], new, *texts[index + 1 :], "one more", "and more"]
    found = compare(chain(*talk(texts)), chain(*talk(edited)))
    if found.turn is not Turn.BROKEN:
        assert index == 0, "only another first question may be another conversation"
        return
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    assert found.broken.index == index + 1
    assert found.broken.path == f"messages[{index + 1}].content"
    assert found.broken.offset == len(old[:first].encode())
    assert found.broken.role == ("user", "assistant")[index % 2]
    assert found.broken.excerpt.old == old[first : first + 40]
    assert found.broken.excerpt.new == new[first : first + 40]


def test_what_no_model_sees_is_no_break():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}
    same = {"id": "9", "type": "function", "function": {"name": "f", "arguments": '{"b":2,"a":1}'}}
    marked = [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]
    old = chain({"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]})
    new = chain(
        {"role": "user", "content": marked},
        {"role": "assistant", "tool_calls": [same]},
        {"role": "tool", "tool_call_id": "9", "content": "x"},
    )
    assert compare(old, new).turn is Turn.EXTENDED


def test_another_last_answer_is_a_branch():
    old = chain(*talk(["q", "answer one", "next"]))
    assert compare(old, chain(*talk(["q", "another answer", "go on"]))).turn is Turn.BRANCHED


def test_another_question_under_the_same_key_is_another_conversation():
    old = chain(*talk(["fix the test", "done", "thanks"]))
    assert compare(old, chain(*talk(["write a title for this chat"]))).turn is Turn.FIRST


def test_a_prompt_that_grew_within_its_last_piece():
    old, new = (
        digest_chain("t", Completions().parse({"model": "m", "prompt": text})) for text in ("x" * 3000, "x" * 3500)
    )
    assert compare(old, new).turn is Turn.EXTENDED


def test_nesting_that_can_not_be_read_again():
    deep = json.loads("[" * 500 + "]" * 500)
    old = chain({"role": "user", "content": deep}, *talk(["a", "b"])[1:])
    new = chain({"role": "user", "content": [deep, 1]}, *talk(["a", "b"])[1:])
    assert compare(old, new).turn in Turn


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    st.data(),
)
@settings(max_examples=examples(200))
def test_odd_messages_never_fail(message, data):
    other = data.draw(st.sampled_from([None, 1, "x", [], {}, {"role": 3}, {"role": "user", "content": {"a": 1}}]))
    for tools in ([], [message], [other, message]):
        old = digest_chain("t", Chat().parse({"messages": [message, other], "tools": [other]}))
        new = digest_chain("t", Chat().parse({"messages": [other, message, other], "tools": tools}))
        found = compare(old, new)
        assert (found.broken is not None) == (found.turn is Turn.BROKEN)
        if found.broken:
            assert found.broken.path.isascii()
