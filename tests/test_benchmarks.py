"""The benchmarks' pure parts: texts, arithmetic, chart, table. Nothing is timed."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks import compare, machine
from benchmarks.client import Answer, BenchmarkError, Run, Server, Turn, cached_tokens, hold
from benchmarks.peers import BASELINE, PEERS
from benchmarks.peers.base import Packages, PeerError, free_port, last_words, make_environment, serving
from benchmarks.peers.hf_folder import hf_config, tensor_names
from benchmarks.peers.openvino_server import chat_prompt
from benchmarks.plot import ttft_chart
from benchmarks.report import describe, percentile, reusable, spread, summarise
from benchmarks.scenario import SYSTEM_TOKENS, TURNS, Conversation, Scenario, conversations, load_text_tokenizer
from engine.output.tools import format_for
from engine.prompt.messages import Message, Role
from engine.prompt.template import ChatTemplate, load_chat_template
from engine.weights.checkpoint import open_checkpoint
from engine.weights.hf_config import read_config

CONTEXT = 8192
TURN_OVERHEAD = 8
"""Tokens that a chat template may add to a message."""

SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": "m"}]}).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def turn(client=0, number=1, ttft=1.0, per_token=0.1, prompt=100, completion=10, cached=0):
    return Turn(client, number, ttft, per_token, prompt, completion, cached)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path):
    return load_text_tokenizer(smollm2_path)


# Texts


def test_texts_have_their_tokens_and_fit_the_context(tokenizer):
    for conversation in conversations(Scenario(clients=3), tokenizer):
        counts = [len(tokenizer.encode(text)) for text in (conversation.system, *conversation.turns)]
        wanted = [SYSTEM_TOKENS, *(tokens for _, tokens in TURNS)]
        assert counts == pytest.approx(wanted, abs=3)
        answers = len(TURNS) * Scenario().tokens
        assert sum(counts) + answers + TURN_OVERHEAD * (2 * len(TURNS) + 1) < CONTEXT


def test_clients_share_the_system_prompt_and_nothing_else(tokenizer):
    first, second = conversations(Scenario(clients=2), tokenizer)
    assert first.system == second.system
    for one, other in zip(first.turns, second.turns, strict=True):
        assert one[:40] != other[:40]


def test_the_same_seed_gives_the_same_texts(tokenizer):
    assert conversations(Scenario(seed=3), tokenizer) == conversations(Scenario(seed=3), tokenizer)
    assert conversations(Scenario(seed=3), tokenizer) != conversations(Scenario(seed=4), tokenizer)


def test_scale_divides_the_prompts(tokenizer):
    (conversation,) = conversations(Scenario(clients=1, scale=8), tokenizer)
    assert len(tokenizer.encode(conversation.system)) == pytest.approx(SYSTEM_TOKENS / 8, abs=3)


# Figures


def test_what_a_turn_leaves_to_reuse():
    assert reusable(turn(prompt=100, completion=10)) == 109
    assert reusable(turn(prompt=100, completion=0)) == 100


def test_shares_count_later_turns_and_each_against_its_own_client():
    turns = (
        turn(client=0, number=1, prompt=100, completion=11, cached=90),
        turn(client=1, number=1, prompt=200, completion=11, cached=0),
        turn(client=0, number=2, prompt=200, completion=11, cached=110),
        turn(client=1, number=2, prompt=300, completion=11, cached=105),
    )
    summary = summarise(Run(1.0, turns))
    assert summary.cached_share == pytest.approx(215 / 500)
    assert summary.reused_share == pytest.approx(215 / (110 + 210))


def test_one_unknown_count_makes_the_share_unknown():
    turns = (turn(number=1), turn(number=2, cached=50), turn(number=3, cached=None))
    summary = summarise(Run(1.0, turns))
    assert summary.cached_share is None
    assert summary.reused_share is None
    assert "-" in describe(summary).splitlines()[-1]


def test_percentile_is_a_measured_value():
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile(list(range(1, 201)), 99) == 198
    assert spread([]).median is None


def test_rates_and_turns():
    turns = (turn(number=1, ttft=1.0), turn(client=1, number=1, ttft=3.0), turn(number=2, ttft=0.5, per_token=None))
    summary = summarise(Run(2.0, turns))
    assert summary.output_rate == 15
    assert summary.total_rate == 165
    assert [each.median for each in summary.ttft] == [2.0, 0.5]
    assert summary.ttft[0].p99 == 3.0
    assert summary.ttft_sum == 2.5
    assert summary.tpot.median == pytest.approx(0.1)
    assert json.loads(json.dumps(summary.as_json()))["output_tokens_per_second"] == 15


def test_the_report_names_every_turn():
    text = describe(summarise(Run(2.0, (turn(), turn(number=2, cached=55)))))
    assert "TTFT, turn 2" in text
    assert "55.0% of the prompts, 50.5% of what is reusable" in text


# Streams


def test_an_answer_is_what_its_client_saw():
    answer = Answer()
    for chunk in (
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"delta": {"content": "b"}}], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    ):
        answer.take(chunk)
    assert answer.text == "ab"
    seen = answer.turn(0, 1)
    assert (seen.prompt, seen.completion, seen.cached) == (7, 2, None)
    assert seen.per_token >= 0
    with pytest.raises(BenchmarkError, match="broken"):
        answer.take({"error": {"message": "broken"}})


def test_cached_tokens_by_either_name():
    assert cached_tokens({"prompt_tokens_details": {"cached_tokens": 0}}, {"cache_n": 5}) == 0
    assert cached_tokens({"prompt_tokens_details": None}, {"cache_n": 5}) == 5
    assert cached_tokens({}, {}) is None


def test_an_absent_server_is_one_line():
    server = Server(f"http://127.0.0.1:{free_port()}/v1", "m")
    with pytest.raises(BenchmarkError, match="http://127"):
        asyncio.run(hold(server, [Conversation("s", ("t",))], 1))


# Chart and table


def test_the_chart_is_well_formed_whatever_the_names():
    summary = summarise(Run(2.0, (turn(), turn(number=2))))
    tree = ElementTree.fromstring(ttft_chart({"a < b & c": summary, "other": summary}))
    shapes = [element.tag.rpartition("}")[2] for element in tree]
    assert shapes.count("rect") == 1 + 2 * 2
    for rect in tree.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(rect.get("height")) >= 0


def test_a_chart_of_nothing_is_a_chart():
    assert ElementTree.fromstring(ttft_chart({})).tag.endswith("svg")


def test_the_table_has_ratios_and_the_missing_peers_reason():
    ours = summarise(Run(2.0, (turn(), turn(number=2, cached=50))))
    theirs = replace(ours, seconds=5.0, cached_share=None)
    lines = compare.rows(
        [
            compare.Outcome(BASELINE, ours, 1.0),
            compare.Outcome("openvino", theirs, 5.5),
            compare.Outcome("vllm", reason="no wheel for this machine"),
        ]
    )
    cells = [cell.strip() for cell in lines[3].strip("|").split("|")]
    assert cells[0] == "openvino"
    assert dict(zip(compare.HEAD, cells, strict=True))["time ÷ sapwood's"] == "2.50"
    assert dict(zip(compare.HEAD, cells, strict=True))["cached share, turns 2-4"] == "-"
    assert lines[-1] == "vllm: not measured: no wheel for this machine"


def test_without_sapwood_there_are_no_ratios():
    lines = compare.rows([compare.Outcome("openvino", summarise(Run(2.0, (turn(),))), 5.5)])
    assert lines[2].count("| - ") >= 3


def test_a_peer_that_fails_does_not_end_the_comparison(monkeypatch, smollm2_path, tmp_path):
    class Broken:
        name = "broken"

        def install(self, env):
            raise PeerError("no compiler")

        def serve(self, env, setup):
            raise AssertionError("was not installed")

    class Silent(Broken):
        name = "silent"

        def install(self, env):
            pass

        def serve(self, env, setup):
            raise PeerError("ended with status 1")

    monkeypatch.setattr(compare, "PEERS", {"broken": Broken(), "silent": Silent()})
    outcomes = compare.compare(["broken", "silent"], str(smollm2_path), Scenario(clients=1, scale=100), 5)
    assert [outcome.reason for outcome in outcomes] == ["no compiler", "ended with status 1"]


# Peers


def test_every_peer_is_known_by_its_name():
    assert all(name == peer.name for name, peer in PEERS.items())
    assert BASELINE in PEERS


def test_a_server_is_awaited_and_ended(tmp_path):
    port = free_port()
    log = tmp_path / "server.log"
    with serving([sys.executable, "-c", SERVER, str(port)], port, log) as endpoint:
        assert endpoint.model == "m"
        assert endpoint.base_url == f"http://127.0.0.1:{port}/v1"
    with pytest.raises(BenchmarkError):
        asyncio.run(hold(Server(endpoint.base_url, "m"), [Conversation("s", ("t",))], 1))


def test_a_server_that_ends_says_why(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('error: no such model')"]
    with (
        pytest.raises(PeerError, match="status 1: error: no such model"),
        serving(command, free_port(), tmp_path / "server.log"),
    ):
        pass


def test_an_installation_that_fails_says_why_and_is_not_taken_for_done(tmp_path):
    env = tmp_path / "peer"
    with pytest.raises(PeerError, match=r"can't be installed: .*no_such"):
        make_environment(env, Packages((str(tmp_path / "no_such.whl"),)))
    assert not (env / ".installed").exists()


def test_an_environment_that_is_there_is_left_alone(tmp_path):
    packages = Packages(("anything==1",), without=("torchvision",))
    (tmp_path / ".installed").write_text(repr(packages))
    make_environment(tmp_path, packages)
    assert [path.name for path in tmp_path.iterdir()] == [".installed"]


def test_last_words_prefer_an_error(tmp_path):
    log = tmp_path / "log"
    log.write_text("start\nERROR: no wheel\n\nhint: see above\n")
    assert last_words(log) == "ERROR: no wheel"
    log.write_text("")
    assert last_words(log) == "no message"


def test_the_folder_for_others_has_the_models_configuration(smollm2_path, tmp_path):
    config = open_checkpoint(smollm2_path).config
    (tmp_path / "config.json").write_text(json.dumps(hf_config(config)))
    assert read_config(tmp_path) == config


def test_the_folder_for_others_has_every_tensor(smollm2_path):
    names = tensor_names(open_checkpoint(smollm2_path))
    assert len(names) == 30 * 9 + 2
    assert "model.layers.29.mlp.down_proj.weight" in names


def test_the_in_process_peer_gets_the_prompt_that_the_template_writes(smollm2_path):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Again"},
    ]
    source = load_chat_template(open_checkpoint(smollm2_path).metadata, None)
    template = ChatTemplate(source, "", "", format_for(source))
    assert chat_prompt(messages) == template.render([Message(Role(each["role"]), each["content"]) for each in messages])


def test_the_machine_line(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nmodel name\t: A Processor: fast\nflags\t: avx2 amx_tile\n\nprocessor : 1\n")
    assert dict(machine.cpu_fields(info))["model name"] == "A Processor: fast"
    assert list(machine.cpu_fields(tmp_path / "none")) == []
    assert "torch" in machine.describe()
