"""Reasoning in the history: dropped where the template drops it, and with `preserve_reasoning` kept to the token."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.output.dialect import Dialect
from engine.output.reasoning import Reasoning, reasoning_for
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate
from engine.prompt.transcript import History, Transcript
from engine.server.prepare import Limits, Preparer
from engine.server.wire import ChatRequest
from tests.engine.prompt.chatting import CALLER, NoGrammars, ask, common, generate, oddly

THINK = Reasoning("<think>", "</think>")
TOOL = {
    "type": "function",
    "function": {"name": "run", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}
# Reasoning only behind the last question; the very last answer has an empty place for it; thinking can be off.
SINCE_THE_QUESTION = (
    "{% set ns = namespace(last=messages | length, seen=false) %}"
    "{% for m in messages[::-1] %}{% if m.role == 'user' and not ns.seen %}"
    "{% set ns.seen = true %}{% set ns.last = messages | length - loop.index %}{% endif %}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}{% set said = m.content.split('</think>')[-1].lstrip('\n') %}"
    "{% set thought = (m.reasoning_content or '').strip('\n') %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last and (loop.last or thought) %}<think>\n{{ thought }}\n</think>\n\n{% endif %}{{ said }}"
    "{% for call in m.tool_calls or [] %}{% if said or not loop.first %}\n{% endif %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n"
    "{% elif m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if thinking is defined and not thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}{# tools #}"
)
# Never any reasoning in the history, and each answer is begun with it.
NEVER = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'assistant' %}<repo_name>{{ m.content.split('</think>')[-1] }}{{ eos_token }}"
    "{% else %}<file_sep>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<repo_name><think>\n{% endif %}"
)
# On one line, and with an empty place in earlier turns.
ONE_LINE = (
    "{% for m in messages %}<|im_start|>{{ m.role ~ '\n' }}{% if m.role == 'assistant' %}"
    "{% if loop.last and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% else %}<think></think>"
    "{% endif %}{{ '\n' }}{% endif %}{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}"
)
TEMPLATES = {"since the question": SINCE_THE_QUESTION, "never": NEVER, "one line": ONE_LINE}
HM, YES = "n must be 4,\n\nso yes", "Yes.\n\nIt is."


@pytest.fixture(scope="session")
def preparer_of(tokenizer):
    def build(source, tool_format=None):
        tool_format = tool_format or HermesFormat()
        template = ChatTemplate(source, tokenizer.bos, tokenizer.eos, tool_format)
        dialect, limits = Dialect(tool_format, reasoning_for(source)), Limits(1_000_000, 1_000_000)
        return Preparer(tokenizer, template, dialect, NoGrammars(), limits, Transcript(1_000_000))

    return build


def thought_out(call, thought=HM, answer=YES, feeds=1):
    """What a model writes behind the prompt."""
    begin = "" if call.prompt.begun else "<think>"
    return f"{begin}{feeds * chr(10)}{thought}\n</think>{2 * feeds * chr(10)}{answer}"


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), feeds=st.integers(0, 1), trimmed=st.booleans())
def test_preserved_reasoning_is_spliced_to_the_token(preparer_of, tokenizer, source, seed, feeds, trimmed):
    preparer, messages, before = preparer_of(source), [{"role": "user", "content": "hi"}], []
    for number in range(4):
        call = ask(preparer, messages, preserve_reasoning=True)
        assert call.prompt.ids[: len(before)] == before
        answer = generate(preparer, call, [*oddly(tokenizer, thought_out(call, feeds=feeds), seed + number), 2])
        assert (answer["reasoning_content"].strip(), answer["content"]) == (HM, YES)
        if trimmed:  # as some clients send it back
            answer["reasoning_content"] = answer["reasoning_content"].strip()
        before = [*call.prompt.ids, *call.requests[0].output[:-1]]
        messages += [answer, {"role": "user", "content": f"turn {number}"}]
    assert preparer.transcript.counts == {History.NEW: 1, History.SPLICED: 3, History.EDITED: 0, History.UNKNOWN: 0}


@pytest.mark.parametrize(
    ("source", "shared"), [(SINCE_THE_QUESTION, ""), (NEVER, ""), (ONE_LINE, "<think")], ids=TEMPLATES
)
def test_without_it_the_prefix_ends_where_the_template_drops_the_reasoning(preparer_of, tokenizer, source, shared):
    preparer, messages = preparer_of(source), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages)
    output = [*oddly(tokenizer, thought_out(call), 3), 2]
    answer = generate(preparer, call, output)
    again = ask(preparer, [*messages, answer, {"role": "user", "content": "go on"}])
    assert HM not in again.prompt.text
    assert again.prompt.ids == tokenizer.encode(again.prompt.text)
    reused = common(again.prompt.ids, [*call.prompt.ids, *output])
    opened = call.prompt.text.removesuffix("<think>\n").removesuffix("<think>")  # where an answer begins
    assert reused == len(tokenizer.encode(opened + shared))


@pytest.mark.parametrize("preserve", [True, False])
def test_reasoning_before_calls(preparer_of, tokenizer, preserve):
    """With an answer that only calls, and one that says something first."""
    preparer, messages, prompts = preparer_of(SINCE_THE_QUESTION), [{"role": "user", "content": "hi"}], []
    written = preparer.dialect.tools.render_call("run", '{"path":  "a"}')
    for number, said in enumerate(("", "Let me see.\n", "")):
        call = ask(preparer, messages, tools=[TOOL], preserve_reasoning=preserve)
        output = [*oddly(tokenizer, thought_out(call, answer=said + written), number), 2]
        answer = generate(preparer, call, output)
        assert (answer["reasoning_content"], answer["content"]) == (HM, said.strip() or None)
        prompts.append([*call.prompt.ids, *output[:-1]])
        messages += [answer, {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "ok"}]
    last = ask(preparer, messages, tools=[TOOL], preserve_reasoning=preserve)
    assert all(last.prompt.ids[: len(ids)] == ids for ids in prompts)  # behind the last question it is kept anyway
    asked = ask(preparer, [*messages, {"role": "user", "content": "more"}], tools=[TOOL], preserve_reasoning=preserve)
    assert all((asked.prompt.ids[: len(ids)] == ids) is preserve for ids in prompts)


def test_foreign_reasoning_is_written_as_the_template_would(preparer_of):
    answer = {"role": "assistant", "content": YES, "reasoning_content": f"\n{HM}\n"}
    call = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    chat = [{"role": "user", "content": "hi"}, answer, {"role": "user", "content": "go on"}]
    calling = [chat[0], {**answer, "content": None, "tool_calls": [call]}, chat[2]]
    end = "<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"

    def text(source, messages, **fields):
        return ask(preparer_of(source), messages, preserve_reasoning=True, **fields).prompt.text

    head = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert text(SINCE_THE_QUESTION, chat) == f"{head}<think>\n{HM}\n</think>\n\n{YES}{end}"
    assert text(ONE_LINE, chat) == f"{head}<think>{HM}</think>\n{YES}{end}<think>"
    calls = '<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'
    assert text(SINCE_THE_QUESTION, calling) == f"{head}<think>\n{HM}\n</think>\n\n{calls}{end}"
    start = "<|im_start|><file_sep>hi<repo_name>"
    assert text(NEVER, chat) == f"{start}<think>\n{HM}\n</think>\n\n{YES}<|im_end|><file_sep>go on<repo_name><think>\n"
    inline = {"role": "assistant", "content": f"<think>\n{HM}\n</think>\n\n{YES}"}  # some clients leave it there
    for source in TEMPLATES.values():
        assert text(source, [chat[0], inline, chat[2]]) == text(source, chat)
        assert HM not in ask(preparer_of(source), chat, preserve_reasoning=False).prompt.text


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_reasoning_that_is_not_sent_back_is_not_put_back(preparer_of, tokenizer, source):
    preparer, messages = preparer_of(source), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, preserve_reasoning=True)
    answer = generate(preparer, call, [*oddly(tokenizer, thought_out(call), 3), 2])
    for edit in ({}, {"reasoning_content": "no"}):
        edited = {"role": "assistant", "content": answer["content"], **edit}
        follow = [*messages, edited, {"role": "user", "content": "go on"}]
        again = ask(preparer, follow, preserve_reasoning=True)
        assert HM not in again.prompt.text
        assert again.prompt.ids == tokenizer.encode(again.prompt.text)
    assert preparer.transcript.counts[History.SPLICED] == 0


def test_an_empty_place_that_the_prompt_has_written_stays(preparer_of, tokenizer):
    preparer, messages, before = preparer_of(SINCE_THE_QUESTION), [{"role": "user", "content": "hi"}], []
    fields = {"preserve_reasoning": True, "chat_template_kwargs": {"thinking": False}}
    for number in range(3):
        call = ask(preparer, messages, **fields)
        assert call.prompt.text.endswith("assistant\n<think>\n\n</think>\n\n")
        assert call.prompt.ids[: len(before)] == before
        answer = generate(preparer, call, [*oddly(tokenizer, YES, number), 2])
        assert answer == {"role": "assistant", "content": YES}
        before = [*call.prompt.ids, *call.requests[0].output[:-1]]
        messages += [answer, {"role": "user", "content": "more"}]
    assert preparer.transcript.counts[History.SPLICED] == 2


def test_answers_without_reasoning_are_the_templates(preparer_of):
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "what is <think> </think>?"},
    ]
    for source in TEMPLATES.values():
        plain, kept = (ask(preparer_of(source), chat, preserve_reasoning=keep).prompt.text for keep in (False, True))
        assert plain == kept


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_reasoning_that_breaks_off_is_not_taken_for_a_whole(preparer_of, tokenizer, source):
    """Cut by length: the history closes it, so the answer's own ids, which don't, must not stand for it."""
    preparer, messages = preparer_of(source), [{"role": "user", "content": "hi"}]
    for keep in (True, False):
        call = ask(preparer, messages, preserve_reasoning=keep)
        answer = generate(preparer, call, tokenizer.encode(thought_out(call).partition("</think>")[0]))
        assert (answer["reasoning_content"].strip(), answer["content"]) == (HM, None)
        again = ask(preparer, [*messages, answer, {"role": "user", "content": "go on"}], preserve_reasoning=keep)
        assert (f"{HM}</think>" in again.prompt.text or f"{HM}\n</think>" in again.prompt.text) is keep
        assert tokenizer.decode(again.prompt.ids) == again.prompt.text


def test_an_answer_that_goes_on_keeps_its_reasoning(preparer_of, tokenizer):
    preparer, messages = preparer_of(NEVER), [{"role": "user", "content": "hi"}]
    call = ask(preparer, messages, preserve_reasoning=True)
    half = generate(preparer, call, oddly(tokenizer, thought_out(call), 1))
    onward = ask(preparer, [*messages, half], continue_final_message=True, preserve_reasoning=True)
    assert onward.prompt.text == f"{call.prompt.text}{HM}\n</think>\n\n{YES}"
    rest = generate(preparer, onward, [*oddly(tokenizer, " More.", 2), 2])
    whole = {**half, "content": half["content"] + rest["content"]}
    last = ask(preparer, [*messages, whole, {"role": "user", "content": "go on"}], preserve_reasoning=True)
    output = onward.requests[0].output[:-1]
    assert last.prompt.ids[: len(onward.prompt.ids) + len(output)] == [*onward.prompt.ids, *output]


CANNOT = {
    "no reasoning": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "content left out": NEVER.replace("{{ m.content.split('</think>')[-1] }}", "{# </think> #}"),
    "shown elsewhere": NEVER + "{% for m in messages %}{{ m.reasoning_content or '' }}{% endfor %}",
    "shown twice": NEVER + "{% for m in messages %}{{ m.content }}{{ m.reasoning_content or '' }}{% endfor %}",
}


@pytest.mark.parametrize("source", CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_kept_is_refused(preparer_of, source):
    answer = {"role": "assistant", "content": YES, "reasoning_content": HM}
    chat = [{"role": "user", "content": "hi"}, answer, {"role": "user", "content": "go on"}]
    with pytest.raises(RequestError) as refused:
        ask(preparer_of(source), chat, preserve_reasoning=True)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "preserve_reasoning")
    assert "preserve_reasoning" in refused.value.message


def test_a_model_without_reasoning_refuses_it_for_every_chat(preparer_of):
    with pytest.raises(RequestError, match="knows no reasoning"):
        ask(preparer_of("{{ messages }}", FenceFormat()), [{"role": "user", "content": "hi"}], preserve_reasoning=True)


texts = st.text("ab<>/ \n\ue000", max_size=12).map(lambda text: text.replace("ab", "<think>"))


@settings(max_examples=60, deadline=None)
@given(turns=st.lists(st.tuples(texts, texts), min_size=1, max_size=4), opened=st.booleans())
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_whatever_is_said_stands_between_its_marks(tokenizer, source, turns, opened):
    """Each answer is in the text in its place, as the client sent it, and no mark of the engine's own is."""
    template = ChatTemplate(source, tokenizer.bos, tokenizer.eos, HermesFormat())
    messages = [{"role": "user", "content": "Q"}]
    for thought, said in turns:
        messages += [{"role": "assistant", "content": said, "reasoning_content": thought or None}]
        messages += [{"role": "user", "content": "Q"}]
    text = template.render(read_messages(messages), add_generation_prompt=opened, preserve=THINK)
    at = 0
    for thought, said in turns:
        for part in (thought.strip(), said if thought.strip() else ""):
            at = text.index(part, at) + len(part)
    assert "answer-" not in text
    assert "thought-" not in text
    assert json.dumps(text).count("ue000") == sum(a.strip().count("\ue000") + b.count("\ue000") for a, b in turns)


def test_it_reaches_the_cache_routes(preparer_of):
    preparer = preparer_of(NEVER)
    answer = {"role": "assistant", "content": YES, "reasoning_content": HM}
    chat = [{"role": "user", "content": "hi"}, answer, {"role": "user", "content": "go on"}]
    body = ask(preparer, chat, preserve_reasoning=True)
    assert preparer.prefix(ChatRequest(messages=chat, preserve_reasoning=True), CALLER) == body.prompt.ids
