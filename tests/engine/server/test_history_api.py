"""Answers of which a client has seen a part only, over HTTP."""

from __future__ import annotations

import json
import time

from engine.prompt.transcript import History


def test_what_was_streamed_before_the_client_left_is_remembered(service, http):
    messages = [{"role": "user", "content": "Write a long story about a sapling."}]
    body = {"messages": messages, "stream": True, "temperature": 0, "ignore_eos": True, "max_tokens": 400}
    known, said = len(service.transcript), ""
    with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                said += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
            if len(said) > 40:
                break
    deadline = time.monotonic() + 10
    while len(service.transcript) == known and time.monotonic() < deadline:
        http.get("/health")
    assert len(service.transcript) == known + 1

    turn = next(reversed(service.transcript._turns[""].values()))
    heard = service.preparer.tokenizer.decode(turn.ids, skip_specials=True).partition("assistant\n")[2]
    assert heard.startswith(said)
    spliced = service.transcript.counts[History.SPLICED]
    messages += [{"role": "assistant", "content": heard}, {"role": "user", "content": "Stop."}]
    http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1}).raise_for_status()
    assert service.transcript.counts[History.SPLICED] == spliced + 1
    assert 'sapwood_engine_turns_total{history="spliced"}' in http.get("/metrics").text
