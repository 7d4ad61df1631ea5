"""The routing benchmark in small: it runs the gateway's placement, and that beats what knows nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from benchmarks.client import BenchmarkError
from benchmarks.routing import figures
from benchmarks.routing_fleet import EVEN, BlockCache, Fleet
from benchmarks.routing_peers import PEERS, Peer
from benchmarks.routing_trace import Prompt, agents, read


def test_the_table_is_printed_and_the_default_policy_beats_round_robin(tmp_path):
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.routing", "--quick", "--sessions", "20", "--engines", "rough"]
    done = subprocess.run([*command, "--capacities", "800000", "--json", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(out.read_text())["figures"].values()
    assert all(name in done.stdout for name in ("seconds, rate guessed right", *PEERS))
    for guess in ("rate guessed right", "guess 4 times too low", "guess 4 times too high"):
        assert found[f"seconds, {guess}"]["mean"] < found["round-robin"]["mean"]
        assert found[f"seconds, {guess}"]["cached"] > found["round-robin"]["cached"]


def test_a_trace_is_read_and_a_file_that_is_none_is_named(tmp_path):
    good = tmp_path / "trace.jsonl"
    good.write_text('{"timestamp": 2000, "input_length": 600, "output_length": 9, "hash_ids": [4, 7]}\n')
    assert read(good, pace=2) == [Prompt(1.0, 600, 9, (4, 7))]
    good.write_text('{"timestamp": 2000}\n')
    with pytest.raises(BenchmarkError, match=r"trace\.jsonl is no trace"):
        read(good)


def test_made_up_agents_are_the_same_for_the_same_seed_and_turns_extend_each_other():
    once = agents(5, 60, seed=3)
    assert [(one.at, one.tokens) for one in once] == [(one.at, one.tokens) for one in agents(5, 60, seed=3)]
    assert all(earlier.at <= later.at for earlier, later in pairwise(once))
    assert any(later.blocks[: len(earlier.blocks)] == earlier.blocks for earlier in once for later in once[1:])


def test_the_cache_forgets_leaves_first():
    cache = BlockCache(3 * 512)
    cache.insert(Prompt(0, 1024, 1, (1, 2)))
    cache.insert(Prompt(1, 1024, 1, (1, 3)))
    cache.insert(Prompt(2, 1024, 1, (1, 4)))
    assert cache.match(Prompt(3, 2000, 1, (1, 2))) == 512
    assert cache.match(Prompt(3, 2000, 1, (1, 4))) == 1024
    assert cache.match(Prompt(3, 1024, 1, (1, 4))) == 1023


def test_one_replica_serves_in_turn():
    prompts = [Prompt(0.0, 8000, 1, tuple(range(16))), Prompt(0.5, 4000, 1, tuple(range(20, 28)))]
    fleet = Fleet(EVEN, 1_000_000, 1, seed=1)
    served = fleet.run(prompts, Peer(PEERS["random"](fleet)))
    assert [one.ttft for one in served] == pytest.approx([1.0, 1.0])
    assert figures(prompts, served, fleet).cached == 0
