"""The measurements that run an engine in this process, at their smallest; nothing is compared with a clock."""

from __future__ import annotations

from argparse import Namespace
from random import Random

import pytest

from benchmarks import inprocess, overhead
from benchmarks.cached_turn import Forward
from benchmarks.client import BenchmarkError
from benchmarks.edits import edited, session
from benchmarks.inprocess import Pass
from benchmarks.replay import Player


def steps(*spans, running=2):
    return [Pass(began, ended, running) for began, ended in spans]


def test_overhead_is_the_time_between_forward_passes():
    warm_up = steps(*((float(i), i + 0.1) for i in range(overhead.WARM_UP)))
    found = overhead.figures([*warm_up, *steps((10.0, 10.9), (11.0, 11.9), (12.0, 12.1))], running=2)
    assert found.steps == 2
    assert found.step == pytest.approx(1.0)
    assert found.share == pytest.approx(0.1)


def test_overhead_counts_only_steps_with_all_requests_running():
    with pytest.raises(BenchmarkError, match="no step had 16 requests"):
        overhead.figures(steps((0.0, 1.0), (1.0, 2.0)), running=16)


def test_overhead_of_the_real_engine(smollm2_path):
    given = Namespace(model=str(smollm2_path), threads=None, requests=2, prefix=16, tokens=12, drafts=True)
    found = overhead.measure(given)
    assert found.steps > 0
    assert 0 < found.share < 1


def test_a_prompt_that_does_not_fit_is_one_line(smollm2_path):
    service = inprocess.load(str(smollm2_path), None, kv_tokens=64)
    with pytest.raises(BenchmarkError, match="maximum context length"):
        inprocess.request(service, [1] * 65, 1)
    with pytest.raises(BenchmarkError, match="KV pool is too small"):
        inprocess.pretend_cached(service.engine, "a", [1] * 65)


def test_a_forward_pass_behind_a_history_computes_the_new_tokens_only(smollm2_path):
    forward = Forward(str(smollm2_path), 1, kv_tokens=1024)
    assert forward.seconds(200, 8) > 0
    assert forward.seconds(200, 600) > 0  # in two steps
    assert forward.service.engine.counters.computed_tokens == 8 + 600


# Replayed edits


def test_an_edit_changes_some_lines_and_keeps_the_others():
    lines = [f"line {i}" for i in range(48)]
    after = edited(lines, Random(0))
    assert len(after) == 48
    assert 0 < sum(one != other for one, other in zip(lines, after, strict=True)) <= 4


def test_a_replay_says_the_record_with_and_without_drafts_in_fewer_steps(smollm2_path):
    plain, drafting = (Player(str(smollm2_path), None, drafts) for drafts in (False, True))
    edits = list(session(0, 60, 2, plain.service.preparer.tokenizer))
    assert edits[1].prompt[: len(edits[0].prompt)] == edits[0].prompt
    for player in (plain, drafting):
        player.rate(edits, "a")  # BenchmarkError where an answer isn't the record
    assert drafting.service.engine.counters.accepted_tokens > 0
    assert drafting.service.engine.counters.steps < plain.service.engine.counters.steps
