"""The `openai` client over the fields of chat and completions, on the real model."""

from __future__ import annotations

import json

import openai
import pytest

HELLO = [{"role": "user", "content": "Say hello."}]
ONCE = "Once upon a time"


@pytest.fixture
def client(base_url):
    return openai.OpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0)


@pytest.fixture
def end_of_turn(service):
    """What ends a turn of the model."""
    (eos,) = service.preparer.tokenizer.eos_ids
    return eos


def chat(client, messages=HELLO, **options):
    options = {"temperature": 0, "max_tokens": 6, **options}
    return client.chat.completions.create(model="smollm2", messages=messages, **options)


def complete(client, prompt=ONCE, **options):
    options = {"temperature": 0, "max_tokens": 6, **options}
    return client.completions.create(model="smollm2", prompt=prompt, **options)


# How an answer ends


def test_max_completion_tokens_goes_before_max_tokens(client):
    reply = chat(client, max_completion_tokens=2, max_tokens=9)
    assert reply.usage.completion_tokens == 2
    assert reply.choices[0].finish_reason == "length"


def test_a_stop_id_ends_the_text_before_its_token(client, service):
    text = complete(client).choices[0].text
    ids = service.preparer.tokenizer.encode(text)
    reply = complete(client, extra_body={"stop_token_ids": [ids[3]]})
    assert reply.choices[0].text == service.preparer.tokenizer.decode(ids[: ids.index(ids[3])])
    assert reply.choices[0].finish_reason == "stop"


def test_ignore_eos_leaves_other_stop_ids(client, end_of_turn):
    to_end = {str(end_of_turn): 100}
    assert complete(client, logit_bias=to_end).usage.completion_tokens == 1
    assert complete(client, logit_bias=to_end, extra_body={"ignore_eos": True}).usage.completion_tokens == 6
    both = {"ignore_eos": True, "stop_token_ids": [end_of_turn]}
    assert complete(client, logit_bias=to_end, extra_body=both).usage.completion_tokens == 1


@pytest.mark.parametrize("least", [1, 4])
def test_min_tokens_keeps_an_answer_open(client, end_of_turn, least):
    """A bias makes the end of the turn the likeliest token everywhere, so the answer ends as soon as it may."""
    eager = {"logit_bias": {str(end_of_turn): 100}, "max_tokens": 9}
    reply = chat(client, **eager, extra_body={"min_tokens": least})
    assert reply.usage.completion_tokens == least + 1
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.content


def test_min_tokens_holds_for_stop_ids_too_and_with_drafts(client, service):
    """The prompt repeats itself, so that its tokens are drafted, the one that ends the text among them."""
    prompt = "one two three four " * 6 + "one"
    plain = complete(client, prompt, max_tokens=12, logprobs=0).choices[0].logprobs.tokens
    (stop,) = service.preparer.tokenizer.encode(plain[2])
    ends = {"stop_token_ids": [stop]}
    assert complete(client, prompt, max_tokens=12, extra_body=ends).usage.completion_tokens == 1 + plain.index(plain[2])
    late = complete(client, prompt, max_tokens=12, logprobs=0, extra_body={**ends, "min_tokens": 5})
    without = complete(client, prompt, max_tokens=5, logit_bias={str(stop): -100}).choices[0].text
    assert late.choices[0].text.startswith(without)
    assert late.usage.completion_tokens > 5
    assert plain[2] not in late.choices[0].logprobs.tokens


def test_min_tokens_does_not_touch_what_would_not_end(client):
    assert complete(client, extra_body={"min_tokens": 6}).choices[0].text == complete(client).choices[0].text


@pytest.mark.parametrize("stop", ["upon", ["zzz", "upon"], [], "", None])
def test_stop_as_text_list_or_nothing(client, stop):
    prompt = "Once upon a time. Once upon a time. Once upon a time. Once"
    text = complete(client, prompt, stop=stop).choices[0].text
    assert ("upon" in text) == (not stop)


# Which token comes next


def test_a_bias_forces_and_forbids(client, service):
    first = service.preparer.tokenizer.encode(complete(client, max_tokens=1).choices[0].text)[0]
    assert complete(client, max_tokens=1, logit_bias={str(first): -100}).choices[0].text != ""
    forbidden = complete(client, max_tokens=1, logit_bias={str(first): -100}).choices[0].text
    assert forbidden != service.preparer.tokenizer.decode([first])
    (hello,) = service.preparer.tokenizer.encode(" hello")
    assert complete(client, max_tokens=3, logit_bias={str(hello): 100}).choices[0].text == " hello hello hello"


def test_a_seed_repeats_and_another_differs(client):
    hot = {"temperature": 1.5, "max_tokens": 8}
    texts = [complete(client, seed=seed, **hot).choices[0].text for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


def test_choices_are_numbered_over_all_prompts(client):
    reply = complete(client, [ONCE, "def f("], n=2, temperature=1.2, seed=5, max_tokens=5)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert reply.choices[0].text != reply.choices[1].text
    assert reply.usage.completion_tokens <= 20
    streamed = complete(client, [ONCE, "def f("], n=2, temperature=1.2, seed=5, max_tokens=5, stream=True)
    texts = [""] * 4
    for chunk in streamed:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in reply.choices]


# Log-probabilities


def test_chat_logprobs_whole_and_streamed(client):
    whole = chat(client, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    streamed = [
        entry
        for chunk in chat(client, logprobs=True, top_logprobs=2, stream=True)
        if chunk.choices[0].logprobs
        for entry in chunk.choices[0].logprobs.content
    ]
    assert [entry.token for entry in streamed] == [entry.token for entry in whole]
    for entry in whole:
        assert bytes(entry.bytes).decode() == entry.token
        assert [top.logprob for top in entry.top_logprobs] == sorted(
            (top.logprob for top in entry.top_logprobs), reverse=True
        )
    assert all(entry.top_logprobs == [] for entry in chat(client, logprobs=True).choices[0].logprobs.content)


def test_the_token_that_ends_an_answer_has_no_logprob(client, end_of_turn):
    options = {"logit_bias": {str(end_of_turn): 100}, "extra_body": {"min_tokens": 2}}
    assert len(chat(client, logprobs=True, **options).choices[0].logprobs.content) == 2
    assert len(complete(client, logprobs=0, **options).choices[0].logprobs.tokens) == 2


def test_tokens_that_a_grammar_forces_are_marked(http):
    schema = {"type": "object", "properties": {"location": {"enum": [1, 2]}}, "required": ["location"]}
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": {**schema, "additionalProperties": False}}}
    body = {"messages": HELLO, "max_tokens": 20, "temperature": 0, "logprobs": True, "response_format": form}
    choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    forced = [entry for entry in entries if entry.get("forced")]
    assert 0 < len(forced) < len(entries)
    assert {entry["logprob"] for entry in forced} == {0.0}
    assert all(entry["logprob"] < 0 for entry in entries if not entry.get("forced"))


def test_completion_logprobs_have_offsets(client):
    choice = complete(client, logprobs=2).choices[0]
    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == len(found.text_offset) == 6
    for token, at in zip(found.tokens, found.text_offset, strict=True):
        assert choice.text[at:].startswith(token)


def test_parts_of_a_character_are_escaped(client, service):
    """Each token of the character is forced by itself."""
    tokenizer = service.preparer.tokenizer
    parts = tokenizer.encode("ᚠ")
    assert len(parts) > 1
    found = complete(client, max_tokens=1, logprobs=0, logit_bias={str(parts[0]): 100}).choices[0].logprobs
    raw = tokenizer.token_bytes(parts[0])
    assert found.tokens == ["".join(f"\\x{byte:02x}" for byte in raw)]


# Echo


@pytest.mark.parametrize("stream", [False, True])
def test_echo_of_text_and_tokens(client, service, stream):
    plain = complete(client).choices[0].text
    for prompt in (ONCE, service.preparer.tokenizer.encode(ONCE)):
        reply = complete(client, prompt, echo=True, stream=stream)
        text = "".join(chunk.choices[0].text for chunk in reply) if stream else reply.choices[0].text
        assert text == ONCE + plain


def test_echo_with_logprobs_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, echo=True, logprobs=1)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "logprobs")


# Usage in streams


def test_usage_comes_last_and_alone_unless_asked_for_in_every_chunk(client):
    for ask in (chat, complete):
        *body, last = ask(client, stream=True, stream_options={"include_usage": True})
        assert last.choices == []
        assert last.usage.completion_tokens == 6
        assert all(chunk.usage is None for chunk in body)


def test_continuous_usage(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    for ask in (chat, complete):
        *body, last = ask(client, stream=True, stream_options=options)
        counts = [chunk.usage.completion_tokens for chunk in body]
        assert counts == sorted(counts)
        assert counts[-1] == last.usage.completion_tokens == 6
        assert {chunk.usage.prompt_tokens for chunk in body} == {last.usage.prompt_tokens}


def test_continuous_usage_alone_asks_for_nothing(client):
    assert all(
        chunk.usage is None for chunk in chat(client, stream=True, stream_options={"continuous_usage_stats": True})
    )


# Messages


def tokens(http, messages, **options):
    reply = http.post("/tokenize", json={"messages": messages, **options})
    assert reply.status_code == 200, reply.text
    return reply.json()["tokens"]


def rendered(http, messages, **options):
    return http.post("/detokenize", json={"tokens": tokens(http, messages, **options)}).json()["prompt"]


def test_developer_is_system_and_late_ones_stay_in_place(http):
    late = [
        {"role": "user", "content": "a"},
        {"role": "developer", "content": "RULE"},
        {"role": "user", "content": "b"},
    ]
    text = rendered(http, late)
    assert text.index("\na<") < text.index("system\nRULE<") < text.index("\nb<")
    system = [{**message, "role": message["role"].replace("developer", "system")} for message in late]
    assert tokens(http, late) == tokens(http, system)


def test_messages_of_the_same_role_stay_apart(http):
    text = rendered(http, [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    assert text.count("<|im_start|>user\n") == 2


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
@pytest.mark.parametrize("content", [None, "x", [], [{"type": "text", "text": "x"}], [{"type": "text", "text": ""}]])
def test_every_role_takes_every_content(client, role, content):
    message = {"role": role, "content": content, **({"tool_call_id": "c"} if role == "tool" else {})}
    assert chat(client, [message, *HELLO], max_tokens=1).usage.completion_tokens == 1


def test_a_final_message_is_continued(client, http):
    messages = [*HELLO, {"role": "assistant", "content": "Hello, my dear"}]
    options = {"continue_final_message": True, "add_generation_prompt": False}
    assert rendered(http, messages, **options).endswith("assistant\nHello, my dear")
    reply = chat(client, messages, extra_body=options)
    assert reply.usage.prompt_tokens == len(tokens(http, messages, **options))
    assert reply.choices[0].message.content


def test_without_a_generation_prompt_the_chat_just_ends(http):
    closed = rendered(http, HELLO, add_generation_prompt=False)
    assert closed.endswith("Say hello.<|im_end|>\n")
    assert rendered(http, HELLO) == closed + "<|im_start|>assistant\n"


def test_template_arguments_do_not_replace_the_engines_own(client):
    options = {"chat_template_kwargs": {"enable_thinking": False, "messages": [], "add_generation_prompt": False}}
    assert chat(client, extra_body=options).usage.prompt_tokens == chat(client).usage.prompt_tokens


def test_unknown_fields_are_ignored(client, http):
    extra = {"prediction": {"type": "content"}, "metadata": {"a": 1}, "user": "u", "store": True, "best_of": 3}
    assert chat(client, extra_body=extra).choices[0].message.content == chat(client).choices[0].message.content
    strange = [{**HELLO[0], "provider_specific_fields": {"x": 1}, "cache_control": None}]
    assert tokens(http, strange) == tokens(http, HELLO)


# Suffix


@pytest.mark.parametrize("suffix", [None, ""])
def test_no_suffix_is_no_middle(client, suffix):
    assert complete(client, suffix=suffix).choices[0].text == complete(client).choices[0].text


def test_a_suffix_needs_tokens_that_this_model_lacks(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, suffix="\n    return x")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "suffix")


# What contradicts itself


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"top_logprobs": 3, "logprobs": False}, "top_logprobs"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"stop_token_ids": [-1]}, "stop_token_ids.0"),
    ],
)
def test_contradictions_name_their_field(http, body, param):
    reply = http.post("/v1/chat/completions", json={"messages": HELLO, **body})
    assert reply.status_code == 400
    error = json.loads(reply.text)["error"]
    assert (error["code"], error["param"]) == ("invalid_value", param)
