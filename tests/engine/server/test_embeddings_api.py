"""POST /v1/embeddings with the `openai` client and without, on the real model."""

from __future__ import annotations

import asyncio
import base64
import socket
import time

import numpy as np
import openai
import pytest

from engine.server.embeddings import embeddings as route

PATH = "/v1/embeddings"
TEXT = "def area(radius):\n    return 3.14 * radius ** 2"


@pytest.fixture
def client(base_url):
    return openai.OpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0)


def vectors(http, value, **options):
    data = http.post(PATH, json={"input": value, **options}).raise_for_status().json()["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return [item["embedding"] for item in data]


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)  # leaves the interpreter to the engine


def test_the_openai_client(client, service):
    reply = client.embeddings.create(model="smollm2", input=[TEXT, "a"], user="me")
    tokens = [len(service.preparer.tokenizer.encode(text)) for text in (TEXT, "a")]
    assert (reply.object, reply.model) == ("list", "smollm2")
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (sum(tokens), sum(tokens))
    assert [(item.object, item.index) for item in reply.data] == [("embedding", 0), ("embedding", 1)]
    for item in reply.data:
        assert len(item.embedding) == service.engine.decoder.config.hidden_size
        assert np.linalg.norm(item.embedding) == pytest.approx(1, abs=1e-5)


def test_base64_is_the_same_to_the_bit(http):
    (floats,) = vectors(http, TEXT, encoding_format="float")
    (text,) = vectors(http, TEXT, encoding_format="base64")
    decoded = np.frombuffer(base64.b64decode(text), dtype="<f4")
    assert decoded.tolist() == floats


def test_all_forms_of_input_are_the_same(http, service):
    ids = service.preparer.tokenizer.encode(TEXT)
    first, *others = [*vectors(http, TEXT), *vectors(http, [TEXT]), *vectors(http, ids), *vectors(http, [ids])]
    assert others == [first] * 3


def test_what_is_alike_is_near(http):
    fox, dog, tax = np.array(
        vectors(
            http,
            [
                "The quick brown fox jumps over the lazy dog.",
                "A fast brown fox leaps over a sleepy dog.",
                "Value added tax returns are due by the end of each quarter.",
            ],
        )
    )
    assert fox @ dog > fox @ tax
    assert fox @ dog > dog @ tax


def test_the_cache_is_left_alone(http):
    before = http.get("/cache").json()
    vectors(http, "Nobody has written these words to this server before.")
    assert http.get("/cache").json() == before


def test_the_dimensions_of_the_model_may_be_asked_for(http, service):
    size = service.engine.decoder.config.hidden_size
    assert [len(vector) for vector in vectors(http, "a", dimensions=size, unknown={"field": 1})] == [size]


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_parameter", "input"),
        ({"input": None}, "invalid_value", "input"),
        ({"input": 5}, "invalid_value", "input"),
        ({"input": {"text": "a"}}, "invalid_value", "input"),
        ({"input": ""}, "invalid_value", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": ["a", ""]}, "invalid_value", "input.1"),
        ({"input": [[]]}, "invalid_value", "input.0"),
        ({"input": ["a", 5]}, "invalid_value", "input.1"),
        ({"input": [[1], [1, 10**9]]}, "invalid_value", "input.1"),
        ({"input": [1, -1]}, "invalid_value", "input"),
        ({"input": [1, "a"]}, "invalid_value", "input"),
        ({"input": [1, True]}, "invalid_value", "input"),
        ({"input": [1.5]}, "invalid_value", "input"),
        ({"input": ["a"] * 2049}, "invalid_value", "input"),
        ({"input": "word " * 1_000_000}, "context_length_exceeded", "input"),
        ({"input": ["a", "a 1" * 9000]}, "context_length_exceeded", "input.1"),
        ({"input": [[1] * 8193]}, "context_length_exceeded", "input.0"),
        ({"input": "a", "dimensions": 64}, "unsupported_parameter", "dimensions"),
        ({"input": "a", "dimensions": 0}, "invalid_value", "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "invalid_value", "encoding_format"),
        ({"input": "a", "model": "other"}, "model_not_found", "model"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused(http, body, code, param):
    reply = http.post(PATH, json=body)
    assert reply.status_code == (404 if code == "model_not_found" else 400)
    assert (reply.json()["error"]["code"], reply.json()["error"]["param"]) == (code, param)
    assert len(reply.json()["error"]["message"]) < 200


def test_a_full_queue_is_said(http, service, monkeypatch):
    monkeypatch.setattr(service.dispatcher, "max_waiting", 0)
    reply = http.post(PATH, json={"input": "a"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (429, "queue_full")


def test_one_that_fails_is_an_error_and_the_next_is_served(http, service, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(service.engine.decoder, "hidden", lambda *_: 1 / 0)
        reply = http.post(PATH, json={"input": "a"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "generation_failed")
    assert vectors(http, "a")


def test_a_client_that_leaves_ends_its_work(base_url, service):
    host, port = base_url.removeprefix("http://").split(":")
    before, texts = service.engine.embeddings.tokens, 500
    body = b'{"input": [' + b", ".join([b'"word"'] * texts) + b"]}"
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: service.engine.embeddings.tokens > before)
    until(lambda: service.engine.embeddings.idle and not service._embedding)
    assert service.engine.embeddings.tokens < before + texts


def test_a_server_that_ends_says_so(http, monkeypatch):
    async def cut_off(_, work):
        work.close()
        raise asyncio.CancelledError

    monkeypatch.setattr(f"{route.__module__}.unless_gone", cut_off)
    reply = http.post(PATH, json={"input": "a"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "shutting_down")
