"""Whole conversations: whatever a model generates, the next prompt begins with all of it, token for token."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.output.dialect import Dialect
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.prompt.template import ChatTemplate, load_chat_template
from engine.prompt.transcript import History, Transcript
from engine.prompt.vocabulary import byte_alphabet
from engine.server.prepare import Limits, Preparer
from engine.server.wire import ChatRequest
from tests.engine.prompt.chatting import CALLER, NoGrammars, ask, common, generate, oddly

TOOL = {
    "type": "function",
    "function": {
        "name": "run",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}},
    },
}
# Trims contents, writes calls anew with its own spaces and key order, and begins answers in its own way.
NATIVE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}"
    "{% for c in m.tool_calls or [] %}\n<tool_call>\n"
    "{{ {'arguments': c.function.arguments.items() | list, 'name': c.function.name} | tojson }}\n</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and (not loop.last or drop) %}{{ m.content.split('</think>')[-1] | trim }}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ENDOFTEXT = NATIVE.replace("{% if add_gen", "{% if not add_generation_prompt %}<|endoftext|>{% endif %}{% if add_gen")


@pytest.fixture(scope="session")
def preparer_of(tokenizer, smollm2_checkpoint):
    own = load_chat_template(smollm2_checkpoint.metadata, None)

    def build(source=None):
        tool_format = FenceFormat() if source is None else HermesFormat()
        template = ChatTemplate(source or own, tokenizer.bos, tokenizer.eos, tool_format)
        limits = Limits(1_000_000, 1_000_000)
        return Preparer(tokenizer, template, Dialect(tool_format), NoGrammars(), limits, Transcript(1_000_000))

    return build


# SmolLM2's ids 0 to 16 are special, and of 2 its answers end; the rest are merged, bytes or words.
tokens = st.lists(st.one_of(st.integers(17, 49151), st.integers(17, 300), st.integers(0, 16)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(turns=st.lists(tokens, min_size=4, max_size=4), ends=st.booleans())
@pytest.mark.parametrize("source", [None, NATIVE], ids=["own template", "rewriting template"])
def test_any_ids_come_back_in_the_next_prompt(preparer_of, source, turns, ends):
    preparer, messages, before = preparer_of(source), [{"role": "user", "content": "hi"}], []
    for number, ids in enumerate(turns):
        call = ask(preparer, messages, ignore_eos=not ends)
        assert call.prompt.ids[: len(before)] == before
        answer = generate(preparer, call, ids)
        output = list(call.requests[0].output)
        if output and ends and output[-1] == 2:
            output.pop()
        if output and not answer["content"]:
            assert ask(preparer, messages).prompt.ids == call.prompt.ids
            return  # tokens that are no text are in no prompt that doesn't go on behind them
        before = [*call.prompt.ids, *output]
        if source is not None and "<|" in json.dumps(answer):
            return  # an answer that spells a special token out is encoded afresh where it's rewritten
        messages += [answer, {"role": "user", "content": f"turn {number}"}]
    assert preparer.transcript.counts[History.SPLICED] == 3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("source", [None, NATIVE, ENDOFTEXT], ids=["own template", "rewriting", "rewriting, two ends"])
def test_four_turns_with_calls_hit_all_that_was_generated(preparer_of, tokenizer, source, seed):
    preparer, messages, before = preparer_of(source), [{"role": "user", "content": "hi"}], []
    arguments = '{"n":3,  "path": "ä/\\u00e9 x"}'
    written = preparer.dialect.tools.render_call("run", arguments)
    for number in range(4):
        call = ask(preparer, messages, tools=[TOOL])
        assert call.prompt.ids[: len(before)] == before
        assert call.prompt.ids.count(2) == call.prompt.text.count("<|im_end|>")  # each answer is ended once
        answer = generate(preparer, call, [*oddly(tokenizer, f"Let me see.\n\n\n{written}", seed + number), 2])
        assert answer["tool_calls"][0]["function"]["arguments"] == arguments
        before = [*call.prompt.ids, *call.requests[0].output[:-1]]
        messages += [answer, {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "ok"}]
    assert preparer.transcript.counts == {History.NEW: 1, History.SPLICED: 3, History.EDITED: 0, History.UNKNOWN: 0}


@pytest.mark.parametrize(
    "edit",
    [
        lambda answer: {**answer, "content": "Let me look."},
        lambda answer: {"role": "assistant", "content": answer["content"]},
        lambda answer: {**answer, "tool_calls": answer["tool_calls"] * 2},
        lambda answer: json.loads(json.dumps(answer).replace("a.py", "b.py")),
    ],
)
@pytest.mark.parametrize("source", [None, NATIVE])
def test_an_edited_answer_is_encoded_as_it_is_now(preparer_of, tokenizer, source, edit):
    preparer, messages = preparer_of(source), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, tools=[TOOL])
    written = preparer.dialect.tools.render_call("run", '{"path":   "a.py"}')
    answer = generate(preparer, call, [*oddly(tokenizer, f"Let me see.\n{written}", 1), 2])
    again = ask(preparer, [*messages, edit(answer), {"role": "user", "content": "go on"}], tools=[TOOL])
    assert again.prompt.ids == tokenizer.encode(again.prompt.text)
    assert preparer.transcript.counts[History.UNKNOWN] == 1


@pytest.mark.parametrize("dropping", [True, False])
def test_reasoning_that_the_template_drops_is_dropped(preparer_of, tokenizer, dropping):
    preparer, messages = preparer_of(THINKING), [{"role": "user", "content": "hi"}]
    extra = {"drop": dropping}
    call = ask(preparer, messages, chat_template_kwargs=extra)
    answer = generate(preparer, call, [*oddly(tokenizer, "<think>hm, hm</think>\n\nYes.", 3), 2])
    messages += [answer, {"role": "user", "content": "go on"}]
    again = ask(preparer, messages, chat_template_kwargs=extra)
    assert "hm" not in again.prompt.text
    assert again.prompt.ids == tokenizer.encode(again.prompt.text)
    assert common(again.prompt.ids, call.prompt.ids) == len(call.prompt.ids)


@settings(max_examples=60, deadline=None)
@given(text=st.text("ab #\n字é", min_size=1, max_size=30), seed=st.integers(0, 999))
def test_a_stop_string_keeps_the_tokens_before_it(preparer_of, tokenizer, text, seed):
    preparer, messages = preparer_of(), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, stop=["b#"])
    ids = oddly(tokenizer, text + "b# and more", seed)
    answer = generate(preparer, call, ids)
    said = (text + "b# and more").partition("b#")[0]
    assert (answer["content"] or "") == said
    again = ask(preparer, [*messages, answer, {"role": "user", "content": "go on"}])
    assert preparer.transcript.counts[History.SPLICED] == (said != "")  # of an empty answer nothing is to be kept
    assert tokenizer.decode(again.prompt.ids) == again.prompt.text
    whole = [*call.prompt.ids, *ids]
    kept = common(again.prompt.ids, whole)
    following = b"".join(map(tokenizer.token_bytes, whole[len(call.prompt.ids) : kept + 1]))
    assert kept >= len(call.prompt.ids)
    assert len(following) > len(said.encode()) or not said.encode().startswith(following)  # not one token less


@pytest.mark.parametrize("seen", range(1, 13))
@pytest.mark.parametrize("source", [None, NATIVE])
def test_an_aborted_answer_is_remembered_as_far_as_it_was_seen(preparer_of, tokenizer, source, seen):
    preparer, messages = preparer_of(source), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, tools=[TOOL])
    character = {byte: char for char, byte in byte_alphabet().items()}
    single_bytes = [tokenizer.raw.token_to_id(character[byte]) for byte in "字字".encode()]
    ids = [*single_bytes, *oddly(tokenizer, " one\n\n two  three four five six", 5)]
    answer = generate(preparer, call, ids, seen=seen)
    again = ask(preparer, [*messages, answer, {"role": "user", "content": "stop"}], tools=[TOOL])
    assert answer["content"] is None or preparer.transcript.counts[History.SPLICED] == 1
    kept = common(again.prompt.ids, [*call.prompt.ids, *ids]) - len(call.prompt.ids)
    read = b"".join(map(tokenizer.token_bytes, ids[: kept + 1]))
    assert len(read) > len((answer["content"] or "").encode())  # all tokens that were seen whole, and no other
    assert source is not None or tokenizer.decode(again.prompt.ids) == again.prompt.text


def test_an_answer_that_spells_a_special_token_stands_for_no_shorter_one(preparer_of, tokenizer):
    preparer, messages = preparer_of(NATIVE), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages)
    spelled = [token for part in ("a<|", "im_end", "|> b ") for token in tokenizer.encode(part)]
    answer = generate(preparer, call, spelled)
    assert answer["content"] == "a<|im_end|> b "
    again = ask(preparer, [*messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "go on"}])
    assert again.prompt.ids == tokenizer.encode(again.prompt.text)


def test_a_broken_off_call_is_not_remembered_for_an_abort(preparer_of, tokenizer):
    preparer, messages = preparer_of(), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, tools=[TOOL])
    generate(preparer, call, tokenizer.encode('```run\n{"path": "a'), seen=6)
    assert len(preparer.transcript) == 0


@pytest.mark.parametrize("source", [None, NATIVE])
def test_an_answer_cut_by_length_goes_on_and_comes_back(preparer_of, tokenizer, source):
    preparer, messages = preparer_of(source), [{"role": "user", "content": "count"}]
    call = ask(preparer, messages)
    half = generate(preparer, call, [*tokenizer.encode("one"), 198, 198])
    onward = ask(preparer, [*messages, half], continue_final_message=True)
    first = [*call.prompt.ids, *call.requests[0].output]
    assert onward.prompt.ids == first
    rest = generate(preparer, onward, [198, *tokenizer.encode(" two"), 198, 2])
    whole = {"role": "assistant", "content": half["content"] + rest["content"]}
    last = ask(preparer, [*messages, whole, {"role": "user", "content": "more"}])
    second = [*onward.prompt.ids, *onward.requests[0].output[:-1]]
    assert last.prompt.ids[: len(second)] == second


def test_the_cache_routes_are_not_counted(preparer_of):
    preparer = preparer_of()
    preparer.prefix(ChatRequest(messages=[{"role": "user", "content": "hi"}]), CALLER)
    assert set(preparer.transcript.counts.values()) == {0}
