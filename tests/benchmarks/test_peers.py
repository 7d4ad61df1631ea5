"""Several peers in one run: one that dies in the middle is named with its last words, and the others go on."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentTypeError

import pytest

from benchmarks import single_stream
from benchmarks.client import Server, ask_alone, hold
from benchmarks.peers import peer_names
from benchmarks.peers.base import Setup, free_port, serving
from benchmarks.peers.run import Outcome, missing, run_each
from benchmarks.scenario import Conversation

SERVER = """
import http.server, json, os, sys
lives = int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(json.dumps({"data": [{"id": "m"}]}))
    def do_POST(self):
        global lives
        if lives == 0:
            print("error: illegal instruction", flush=True)
            os._exit(9)
        lives -= 1
        self.rfile.read(int(self.headers["content-length"]))
        chunks = [{"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"delta": {"content": "b"}}]},
                  {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]
        self.answer("".join(f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks))
    def answer(self, text):
        self.send_response(200); self.end_headers(); self.wfile.write(text.encode())
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Fake:
    """Answers so many requests, then dies."""

    def __init__(self, name, lives):
        self.name, self.lives = name, lives

    def install(self, env):
        pass

    def serve(self, env, setup):
        port = free_port()
        return serving([sys.executable, "-c", SERVER, str(port), str(self.lives)], port, env / "server.log")


def test_a_peer_that_dies_is_named_and_the_next_one_runs(tmp_path):
    def work(endpoint):
        server = Server(endpoint.base_url, endpoint.model)
        return len(asyncio.run(hold(server, [Conversation("s", ("one", "two"))], 2, 30)).turns)

    peers = [Fake("mortal", 2), Fake("whole", 10)]
    mortal, whole = run_each(peers, tmp_path, Setup(tmp_path, 1, 1), work)
    assert mortal.figures is None
    assert "ended with status 9: error: illegal instruction" in mortal.reason
    assert whole.figures == 2
    (line,) = missing([mortal, whole])
    assert line.startswith("mortal: not measured: ended with status 9")


def test_one_answer_alone(tmp_path):
    with Fake("whole", 10).serve(tmp_path, Setup(tmp_path, 1, 1)) as endpoint:
        server = Server(endpoint.base_url, endpoint.model)
        answer = asyncio.run(ask_alone(server, [{"role": "user", "content": "x"}], 2))
    assert answer.text == "ab"


def test_names_of_peers_are_checked():
    assert peer_names("sapwood, vllm") == ["sapwood", "vllm"]
    with pytest.raises(ArgumentTypeError, match="no peer named 'other'; known: sapwood"):
        peer_names("vllm,other")
    with pytest.raises(ArgumentTypeError):
        peer_names(",")


def test_single_stream_rows_have_ratios_and_reasons():
    outcomes = [
        Outcome("sapwood", {64: 50.0, 3000: 20.0}),
        Outcome("llamacpp", {64: 100.0, 3000: 10.0}),
        Outcome("openvino", reason="no wheel"),
    ]
    lines = single_stream.rows(outcomes, [64, 3000])
    assert lines[3] == "| llamacpp | 100.0 | 10.0 | 2.00 | 0.50 |"
    assert lines[-1] == "openvino: not measured: no wheel"
    assert single_stream.rows(outcomes[1:2], [64])[-1] == "| llamacpp | 100.0 | - |"
