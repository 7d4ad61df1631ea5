"""/tokenize and /detokenize: exactly what the engine would compute."""

from __future__ import annotations

import pytest

TEXT = "def f():\n\treturn 'ᚠ 字😀'"


def test_there_and_back(http, service):
    answer = http.post("/tokenize", json={"model": "smollm2", "prompt": TEXT}).json()
    assert answer["count"] == len(answer["tokens"])
    assert answer["max_model_len"] == service.preparer.limits.longest
    assert answer["token_strs"] is None
    assert http.post("/detokenize", json={"tokens": answer["tokens"]}).json() == {"prompt": TEXT}


def test_token_strings_are_the_vocabularys(http, service):
    answer = http.post("/tokenize", json={"prompt": "a b", "return_token_strs": True}).json()
    assert answer["token_strs"] == [service.preparer.tokenizer.text_of(token) for token in answer["tokens"]]
    assert len(answer["token_strs"]) == 2


def test_a_chat_counts_what_a_completion_reports(http):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": tools}
    usage = http.post("/v1/chat/completions", json={**body, "max_tokens": 1}).json()["usage"]
    assert http.post("/tokenize", json=body).json()["count"] == usage["prompt_tokens"]


def test_a_text_counts_what_a_completion_reports(http):
    usage = http.post("/v1/completions", json={"prompt": TEXT, "max_tokens": 1}).json()["usage"]
    assert (
        http.post("/tokenize", json={"prompt": TEXT, "add_special_tokens": True}).json()["count"]
        == (usage["prompt_tokens"])
    )


def test_nothing_is_something(http):
    assert http.post("/tokenize", json={"prompt": ""}).json()["tokens"] == []
    assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}


@pytest.mark.parametrize(
    ("path", "body", "code", "param"),
    [
        ("/tokenize", {}, "missing_parameter", "prompt"),
        ("/tokenize", {"prompt": 5}, "invalid_value", "prompt"),
        ("/tokenize", {"messages": "hi"}, "invalid_value", "messages"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model_not_found", "model"),
        ("/tokenize", {"prompt": "word " * 1_000_000}, "context_length_exceeded", "prompt"),
        ("/detokenize", {}, "missing_parameter", "tokens"),
        ("/detokenize", {"tokens": [10**9]}, "invalid_value", "tokens"),
        ("/detokenize", {"tokens": [-1]}, "invalid_value", "tokens.0"),
        ("/detokenize", {"tokens": "x"}, "invalid_value", "tokens"),
    ],
)
def test_what_is_refused(http, path, body, code, param):
    reply = http.post(path, json=body)
    assert reply.status_code in (400, 404)
    assert (reply.json()["error"]["code"], reply.json()["error"]["param"]) == (code, param)
