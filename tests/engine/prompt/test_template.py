"""Prompts: the model's own template, and the tools written into it where it knows none."""

from __future__ import annotations

import json
import re

import pytest

from engine.errors import RequestError, StartError
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.tool import Tool
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate, load_chat_template

RUN = Tool("run_tests", "Run the tests.")
CHATML = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + m['content'] + '<e>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
NATIVE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>"
    "{% if c.function.arguments is string %}RAW{% endif %}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% endfor %}"
)


def template(source, tool_format=None):
    return ChatTemplate(source, "<b>", "<e>", tool_format or FenceFormat())


def history():
    call = {"id": "c", "function": {"name": "run_tests", "arguments": "{}"}}
    return read_messages(
        [
            {"role": "user", "content": "fix"},
            {"role": "assistant", "content": "Sure.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "1 failed"},
        ]
    )


@pytest.mark.parametrize("system", [True, False])
def test_smollm2_equals_transformers(smollm2_checkpoint, tokenizer, system):
    from transformers.utils.chat_template_utils import render_jinja_template

    source = load_chat_template(smollm2_checkpoint.metadata, None)
    messages = [{"role": "user", "content": "hi <b> & 'x'"}, {"role": "assistant", "content": "yo\n"}]
    if system:
        messages.insert(0, {"role": "system", "content": "Be brief."})
    rendered, _ = render_jinja_template([messages], chat_template=source, add_generation_prompt=True)
    ours = ChatTemplate(source, tokenizer.bos, tokenizer.eos, FenceFormat())
    assert ours.render(read_messages(messages)) == rendered[0]
    assert ours.knows_tools is False


def test_tools_become_a_system_message_where_the_template_knows_none():
    text = template(CHATML).render(history(), [RUN])
    block = FenceFormat().describe([RUN])
    assert text == (
        f"<s>system\n{block}<e>\n<s>user\nfix<e>\n"
        "<s>assistant\nSure.\n```run_tests\n{}\n```<e>\n<s>tool\n1 failed<e>\n<s>assistant\n"
    )


def test_tools_follow_the_system_text_that_is_there():
    messages = read_messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}])
    text = template(CHATML).render(messages, [RUN])
    assert text.startswith("<s>system\nBe brief.\n\n" + FenceFormat().describe([RUN]) + "<e>\n<s>user")


def test_a_longer_chat_extends_the_rendering_of_its_beginning():
    messages = history()
    short = template(CHATML).render(messages[:1], [RUN])
    assert template(CHATML).render(messages, [RUN]).startswith(short)


def test_a_template_that_knows_tools_gets_them_with_arguments_as_written():
    call = {"id": "c", "function": {"name": "run", "arguments": '{"path":"ä",  "n":1}'}}
    messages = read_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    native = template(NATIVE, HermesFormat())
    assert native.knows_tools
    text = native.render(messages, [RUN])
    assert json.loads(text[: text.index("[assistant]")]) == [RUN.as_openai()]
    assert text.endswith('[assistant]<tool_call>{"path":"ä",  "n":1}')
    broken = {"id": "c", "function": {"name": "run", "arguments": '{"path":'}}
    messages = read_messages([{"role": "assistant", "tool_calls": [broken]}])
    assert native.render(messages, [RUN]).endswith(r'RAW"{\"path\":"')


@pytest.mark.parametrize(
    ("print_it", "expected"),
    [
        ("{{ a }}", '{"k":  1}'),
        ("{{ 'x' + a }}", 'x{"k":  1}'),
        ("{{ a + 'x' }}", '{"k":  1}x'),
        ("{{ 'x' ~ a }}", 'x{"k":  1}'),
        ("{% for k, v in a|items %}{{ k }}={{ v }}{% endfor %}", "k=1"),
    ],
)
def test_arguments_serve_as_text_and_as_a_mapping(print_it, expected):
    call = {"id": "c", "function": {"name": "run", "arguments": '{"k":  1}'}}
    messages = read_messages([{"role": "assistant", "tool_calls": [call]}])
    source = "{% if tools %}{% endif %}{% set a = messages[0].tool_calls[0].function.arguments %}" + print_it
    assert template(source).render(messages) == expected


def test_continue_final_ends_within_the_last_message():
    messages = read_messages([{"role": "user", "content": "count"}, {"role": "assistant", "content": "one two"}])
    assert template(CHATML).render(messages, continue_final=True) == "<s>user\ncount<e>\n<s>assistant\none two"


def test_extra_variables_and_special_tokens_reach_the_template():
    source = "{{ bos_token }}{{ eos_token }}{{ enable_thinking }}{{ messages | length }}"
    text = template(source).render(history(), extra={"enable_thinking": False, "messages": "no"})
    assert text == "<b><e>False3"


def test_what_hugging_face_templates_expect():
    source = (
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m | tojson }}{% endfor %}"
        "{{ strftime_now('%Y') }}"
    )
    text = template(source).render(read_messages([{"role": "user", "content": "<ä'&>"}] * 2))
    assert re.fullmatch(r'\{"role": "user", "content": "<ä\'&>"\}\d{4}', text)


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].content + 1 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10000000) %}x{% endfor %}",
    ],
)
def test_what_a_template_refuses_or_must_not_do_is_a_request_error(source):
    with pytest.raises(RequestError) as caught:
        template(source).render(history())
    assert (caught.value.code, caught.value.param) == ("invalid_value", "messages")


def test_a_broken_template_stops_the_start():
    with pytest.raises(StartError, match="template"):
        template("{% for %}")


def test_templates_are_found_in_a_folder(tmp_path):
    assert load_chat_template({}, None) is None
    assert load_chat_template({}, tmp_path) is None
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert load_chat_template({}, tmp_path) == "D"
    (tmp_path / "chat_template.jinja").write_text("J")
    assert load_chat_template({}, tmp_path) == "J"
