"""What grammars cost and what jump-forward saves, at the smallest: nothing is compared with a clock."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import grammar, grammar_http
from benchmarks.client import BenchmarkError
from benchmarks.given_calls import call_text
from benchmarks.grammar_http import PLAIN, Costs
from benchmarks.jump_forward import GIVEN, Maker, Pair, Timed, calls, rows
from benchmarks.peers.base import PeerError
from benchmarks.peers.run import Outcome
from benchmarks.peers.vllm_costs import run_script
from engine.output.tools.fence import FenceFormat
from engine.prompt.tokenizer import load_tokenizer
from engine.sample.grammar import GrammarCompiler
from engine.weights.checkpoint import open_checkpoint


@pytest.fixture(scope="module")
def tokenizer(smollm2_path):
    return load_tokenizer(open_checkpoint(smollm2_path).metadata, None)


def test_a_jumping_engine_makes_the_given_call_in_fewer_steps(smollm2_path):
    (call,) = calls(GIVEN, "named", 1, 96, 0.7)
    plain, jumping = (Maker(str(smollm2_path), None, jump, drafts=False) for jump in (False, True))
    ids = jumping.write(call)
    steps = []
    for maker in (plain, jumping):
        timed = maker.make(call, ids)  # BenchmarkError where it says something else
        assert (timed.forced > 0) == (maker is jumping)
        steps.append(maker.service.engine.counters.steps)
    text = plain.service.preparer.tokenizer.decode(ids)
    assert json.loads(text.split("\n")[1]) == call.arguments
    assert steps[1] < steps[0]


def test_rows_of_calls_have_shares_and_ratios():
    (call,) = calls(GIVEN, "named", 1, 96, 0.7)
    pairs = [Pair(call, False, 40, Timed(0.2, 0), Timed(0.1, 10)), Pair(call, False, 20, Timed(0.4, 0), Timed(0.2, 5))]
    assert rows(pairs)[-1] == "| given | named | off | 2 | 30 | 25.0% | 300 ms | 150 ms | 0.50 |"


def test_the_same_calls_whenever_they_are_asked_for():
    assert list(calls("own", "required", 3, 9, 0.5)) == list(calls("own", "required", 3, 9, 0.5))


def test_a_call_that_the_grammar_forbids_is_one_line(tokenizer):
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)
    state = compiler.regex("no call").start()
    with pytest.raises(BenchmarkError, match="no call of finish"):
        call_text(FenceFormat(), "finish", {}, (), state)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_grammars_costs(tokenizer, choice):
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)
    found = grammar.measure(compiler, tokenizer, 2, choice)
    assert found["first_ms"] > found["turn_ms_median"] > 0
    assert 0 < found["forced_share"] < 1
    assert grammar.beside({"first_ms": 2.0, "forced_share": 0.3}, {"first_ms": 8.0, "core_ms": 1.0}) == {
        "first_ms": 4.0
    }


def test_a_script_in_a_peers_environment_answers_or_says_why_not(tmp_path):
    echo = "import json, sys; print('hello'); print(json.dumps({'turns': json.load(sys.stdin)['turns']}))"
    assert run_script([sys.executable, "-c", echo], {"turns": 3}, tmp_path / "log") == {"turns": 3}
    with pytest.raises(PeerError, match="status 1: error: no such module"):
        run_script([sys.executable, "-c", "import sys; sys.exit('error: no such module')"], {}, tmp_path / "log")
    with pytest.raises(PeerError, match="No such file"):
        run_script([str(tmp_path / "python")], {}, tmp_path / "log")


def test_what_a_grammar_adds_over_http():
    outcomes = [
        Outcome(PLAIN, Costs(0.2, 0.21, 0.05, 40)),
        Outcome("vllm", Costs(0.5, 0.54, 0.2, 40)),
        Outcome("other", reason="no wheel"),
    ]
    lines = grammar_http.rows(outcomes)
    assert lines[3] == "| vllm | 500.0 ms | 540.0 ms | 40.0 ms | 1000 µs | 200.0 ms | 4.00 |"
    assert lines[-1] == "other: not measured: no wheel"
    assert len(json.dumps(grammar_http.call_schema())) > 14_000
