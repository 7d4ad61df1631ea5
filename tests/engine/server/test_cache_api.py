"""The cache's endpoints and headers as a gateway uses them, on the real model."""

from __future__ import annotations

import time

import pytest

TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Reads a file.", "parameters": {"type": "object", "properties": {}}},
}
CHAT = "/v1/chat/completions"


def system(name):
    return {"role": "system", "content": f"You are {name}, who answers in few words and likes short sentences."}


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture
def tenant():
    return f"tenant-{time.monotonic_ns()}"


@pytest.fixture
def post(http, tenant):
    def send(path, body, **headers):
        named = {f"x-sapwood-{name}": value for name, value in headers.items()}
        return http.post(path, json=body, headers={"x-sapwood-tenant": tenant, **named})

    return send


@pytest.fixture
def nodes(http, tenant):
    """Every node of the tenant that `/cache/tree` shows."""

    def read():
        spaces = [space for space in http.get("/cache/tree").json()["namespaces"] if space["namespace"] == tenant]
        found = [child for space in spaces for child in space["children"]]
        for node in found:
            found.extend(node["children"])
        return found

    return read


def eventually(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def cached(reply):
    assert reply.status_code == 200, reply.text
    usage = reply.json()["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def test_a_warmed_prefix_is_not_computed_by_the_first_request(post, http):
    assert "warm" in http.get("/info").json()["offers"]
    head = {"model": "smollm2", "messages": [system("Ada")], "tools": [TOOL]}
    first = post("/cache/warm", head).json()
    assert 0 == first["cached_tokens"] < first["warmed_tokens"]
    chat = {**head, "messages": [system("Ada"), user("Hi.")], "max_tokens": 1}
    found, prompt = cached(post(CHAT, chat))
    assert found >= first["warmed_tokens"] - 5  # the opening of an answer follows the user's message here
    assert found < prompt
    again = post("/cache/warm", head).json()
    assert again == {"warmed_tokens": first["warmed_tokens"], "cached_tokens": first["warmed_tokens"] - 1}


def test_warming_generates_nothing(post, service):
    before = service.engine.counters.generated_tokens
    assert post("/cache/warm", {"messages": [system("Bob"), user("Tell a story.")]}).status_code == 200
    assert service.engine.counters.generated_tokens == before


def test_without_waiting_it_is_accepted_and_done_later(post):
    body = {"messages": [system("Cleo")]}
    reply = post("/cache/warm", {**body, "wait": False})
    assert reply.status_code == 202
    tokens = reply.json()["prompt_tokens"]
    eventually(lambda: post("/cache/release", body).json()["released_tokens"] == tokens)


def test_a_warmed_prefix_can_be_retained(post, nodes):
    post("/cache/warm", {"messages": [system("Dora")]})
    assert [node["retained"] for node in nodes()] == [0]
    post("/cache/warm", {"messages": [system("Dora")], "seconds": 60})
    assert all(50 < node["retained"] <= 60 for node in nodes())
    post("/cache/release", {"messages": [system("Dora")]})
    assert all(node["retained"] == 0 for node in nodes())


def test_a_request_can_retain_what_it_leaves(post, nodes):
    body = {"messages": [system("Eve"), user("Hi.")], "max_tokens": 2}
    assert post(CHAT, body, retain="90").status_code == 200
    eventually(nodes)
    assert all(80 < node["retained"] <= 90 for node in nodes())


def test_the_newest_turn_of_a_session_is_retained_by_its_name(post, nodes):
    body = {"messages": [system("Finn"), user("Hi.")], "max_tokens": 2}
    usage = post(CHAT, body, session="s1").json()["usage"]
    asked = {"session": "s1", "seconds": 70}
    eventually(lambda: post("/cache/retain", asked).json()["retained_tokens"] >= usage["total_tokens"] - 1)
    assert all(60 < node["retained"] <= 70 for node in nodes())
    assert post("/cache/release", {"session": "s1"}).json()["released_tokens"] >= usage["total_tokens"] - 1
    assert all(node["retained"] == 0 for node in nodes())
    assert post("/cache/retain", {"session": "nobody"}).json() == {"retained_tokens": 0}
    assert post("/cache/retain", {"session": ""}).status_code == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_session_that_goes_another_way_leaves_a_superseded_branch(post, nodes, stream):
    def turn(session, *texts):
        body = {"messages": [system("Finn"), *map(user, texts)], "max_tokens": 2, "stream": stream}
        assert post(CHAT, body, session=session).status_code == 200

    turn("one", "What is the capital of France?")
    turn("two", "What is a tree?")
    assert not any(node["superseded"] for node in nodes())
    turn("one", "What is the capital of Italy?")
    left = [node for node in nodes() if node["superseded"]]
    assert left
    assert all(node["leases"] == 0 for node in left)
    turn("one", "What is the capital of France?")
    still = [node for node in nodes() if node["superseded"]]
    assert sum(node["tokens"] for node in still) <= 2  # at most the old answer: its prompt is in use again
    assert sum(node["tokens"] for node in left) > 2


def test_an_append_only_session_leaves_nothing(post, nodes):
    messages = [system("Gil"), user("Count to three.")]
    for _ in range(3):
        reply = post(CHAT, {"messages": messages, "max_tokens": 6, "temperature": 0}, session="s").json()
        messages += [reply["choices"][0]["message"], user("Go on.")]
    assert not any(node["superseded"] for node in nodes())


def test_no_session_no_superseded_branch(post, nodes):
    for text in ("What is the capital of France?", "What is the capital of Italy?"):
        assert post(CHAT, {"messages": [system("Hal"), user(text)], "max_tokens": 2}).status_code == 200
    assert not any(node["superseded"] for node in nodes())


@pytest.mark.parametrize("path", ["/cache/warm", "/cache/retain", "/cache/release"])
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"messages": []}, "invalid_value", "messages"),
        ({}, "missing_parameter", "messages"),
        ({"messages": [user("hi")], "tools": [{"type": "function"}]}, "invalid_value", ...),
        ({"messages": [user("word " * 1_000_000)]}, "context_length_exceeded", "messages"),
        ({"messages": [user("hi")], "model": "gpt-9"}, "model_not_found", "model"),
        ({"messages": [user("hi")], "seconds": -1}, "invalid_value", "seconds"),
        ({"messages": [user("hi")], "seconds": 1e9}, "invalid_value", "seconds"),
        ({"messages": [user("hi")], "seconds": "long"}, "invalid_value", "seconds"),
    ],
)
def test_a_bad_body_is_refused_as_chat_does(post, path, body, code, param):
    reply = post(path, body)
    assert reply.status_code == (404 if code == "model_not_found" else 400)
    error = reply.json()["error"]
    assert error["code"] == code
    assert param is ... or error["param"] == param


def test_wait_is_true_or_false(post):
    reply = post("/cache/warm", {"messages": [user("hi")], "wait": "perhaps"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "wait")


def test_what_fills_the_context_is_refused_with_both_lengths(post, service):
    """It is short enough to be tokenised, and leaves no room for an answer."""
    longest = service.preparer.limits.longest
    reply = post("/cache/warm", {"messages": [user(" a" * longest)]})
    assert reply.json()["error"]["code"] == "context_length_exceeded"
    assert str(longest) in reply.json()["error"]["message"]
