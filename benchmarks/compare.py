"""The same scenario on several servers, one after the other on this machine, in one table.

    python -m benchmarks.compare --peers sapwood,openvino,llamacpp,vllm --clients 4 --tokens 64

Each peer is installed into an environment of its own under `$SAPWOOD_HOME/bench` (minutes and gigabytes the first
time). One that can't be installed or started is reported with its reason; the others run. Below the table stands the
floor: how long sapwood's run would take if it were nothing but its matrix products.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import floor, machine
from benchmarks.client import Server, hold
from benchmarks.options import add_run, add_scenario, end_cleanly, parser, scenario, write_json
from benchmarks.peers import BASELINE, PEERS, peer_names
from benchmarks.peers.base import Endpoint, Setup
from benchmarks.peers.run import Outcome, missing, run_each
from benchmarks.plot import ttft_chart
from benchmarks.rates import measure_rates
from benchmarks.report import NOTHING, Summary, milliseconds, percent, ratio, summarise, table
from benchmarks.scenario import Scenario, conversations, load_text_tokenizer
from engine.errors import StartError

HEAD = (
    "server",
    "time for all",
    "TTFT median, turns 1 / 2 / 3 / 4",
    "TPOT median",
    "output tokens/s",
    "cached share, turns 2-4",
    "of reusable",
    "start to ready",
    "time ÷ sapwood's",
    "TTFT ÷ sapwood's",
    "TPOT ÷ sapwood's",
)


def main() -> None:
    given = _options()
    end_cleanly()
    wanted = scenario(given)
    try:
        outcomes = compare(given.peers, given.model, wanted, given.timeout)
        work, found = _floors(given.model, wanted)
    except StartError as error:
        sys.exit(f"compare: {error}")
    except KeyboardInterrupt:
        sys.exit("compare: interrupted")
    ours = _ours(outcomes)
    print(machine.describe())
    print(f"{wanted.clients} clients, {wanted.tokens} tokens a turn, prompts ÷ {wanted.scale:g}")
    print("\n".join(rows(outcomes)))
    print("\n".join(["", floor.words(work), *floor.rows(found, ours.seconds if ours else None), ""]))
    record = {"machine": machine.describe(), "scenario": asdict(wanted)}
    floor_record = {"arithmetic": asdict(work), "floors": [asdict(each) for each in found]}
    write_json(given.json, {**record, "peers": [_as_json(outcome) for outcome in outcomes], **floor_record})
    if given.plot is not None:
        given.plot.write_text(ttft_chart({o.name: o.figures for o in outcomes if o.figures is not None}))


def compare(names: Sequence[str], model: str, wanted: Scenario, timeout: float) -> list[Outcome[Summary]]:
    from engine.weights.source import home_folder, resolve

    path = resolve(model, home_folder())
    spoken = conversations(wanted, load_text_tokenizer(path))

    def work(endpoint: Endpoint) -> Summary:
        server = Server(endpoint.base_url, endpoint.model)
        return summarise(asyncio.run(hold(server, spoken, wanted.tokens, timeout)))

    setup = Setup(path, wanted.clients, os.cpu_count() or 1)
    return run_each([PEERS[name] for name in names], home_folder() / "bench", setup, work)


def _floors(model: str, wanted: Scenario) -> tuple[floor.Arithmetic, list[floor.Floor]]:
    """After the peers, in the same run: rates are only comparable with what was measured beside them."""
    from engine.weights.checkpoint import open_checkpoint
    from engine.weights.source import home_folder, resolve

    config = open_checkpoint(resolve(model, home_folder())).config
    work = floor.arithmetic(config, wanted)
    return work, floor.floors(work, measure_rates(config, os.cpu_count()))


def rows(outcomes: Sequence[Outcome[Summary]]) -> list[str]:
    """The Markdown table, and below it why a peer is missing."""
    ours = _ours(outcomes)
    found = [_row(outcome, outcome.figures, ours) for outcome in outcomes if outcome.figures is not None]
    return [*table(HEAD, found), *missing(outcomes)]


def _ours(outcomes: Sequence[Outcome[Summary]]) -> Summary | None:
    return next((outcome.figures for outcome in outcomes if outcome.name == BASELINE), None)


def _row(outcome: Outcome[Summary], summary: Summary, ours: Summary | None) -> list[str]:
    ttft = " / ".join(NOTHING if spread.median is None else f"{spread.median:.1f}" for spread in summary.ttft)
    ready = NOTHING if outcome.ready_seconds is None else f"{outcome.ready_seconds:.1f} s"
    return [
        outcome.name,
        f"{summary.seconds:.1f} s",
        f"{ttft} s",
        milliseconds(summary.tpot.median),
        f"{summary.output_rate:.1f}",
        percent(summary.cached_share),
        percent(summary.reused_share),
        ready,
        ratio(summary.seconds, ours.seconds if ours else None),
        ratio(summary.ttft_sum, ours.ttft_sum if ours else None),
        ratio(summary.tpot.median, ours.tpot.median if ours else None),
    ]


def _as_json(outcome: Outcome[Summary]) -> dict[str, Any]:
    summary = outcome.figures.as_json() if outcome.figures else None
    return {
        "name": outcome.name,
        "ready_seconds": outcome.ready_seconds,
        "reason": outcome.reason,
        "summary": summary,
    }


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--peers", type=peer_names, default=["sapwood", "openvino", "llamacpp", "vllm"])
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    add_scenario(options)
    add_run(options)
    return options.parse_args()


if __name__ == "__main__":
    main()
