"""The same scenario on several servers, one after the other on this machine, in one table.

    python -m benchmarks.compare --peers sapwood,openvino,llamacpp,vllm --clients 4 --tokens 64

Each peer is installed into an environment of its own under `$SAPWOOD_HOME/bench` (minutes and gigabytes the first
time). One that can't be installed or started is reported with its reason; the others run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.client import BenchmarkError, Server, hold
from benchmarks.options import add_scenario, end_cleanly, parser, scenario, write_json
from benchmarks.peers import BASELINE, PEERS
from benchmarks.peers.base import Peer, PeerError, Setup
from benchmarks.plot import ttft_chart
from benchmarks.report import NOTHING, Summary, milliseconds, percent, summarise, table
from benchmarks.scenario import Conversation, Scenario, conversations, load_text_tokenizer
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


@dataclass(frozen=True)
class Outcome:
    """What came of one peer: figures, or the reason why there are none."""

    name: str
    summary: Summary | None = None
    ready_seconds: float | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        summary = self.summary.as_json() if self.summary else None
        return {"name": self.name, "ready_seconds": self.ready_seconds, "reason": self.reason, "summary": summary}


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        outcomes = compare(given.peers, given.model, scenario(given), given.timeout)
    except StartError as error:
        sys.exit(f"compare: {error}")
    except KeyboardInterrupt:
        sys.exit("compare: interrupted")
    print(machine.describe())
    print("\n".join(rows(outcomes)))
    record = {"machine": machine.describe(), "scenario": asdict(scenario(given))}
    write_json(given.json, {**record, "peers": [outcome.as_json() for outcome in outcomes]})
    if given.plot is not None:
        given.plot.write_text(ttft_chart({o.name: o.summary for o in outcomes if o.summary is not None}))


def compare(names: Sequence[str], model: str, wanted: Scenario, timeout: float) -> list[Outcome]:
    """Everything is installed before anything is measured, so that no build runs beside a measurement."""
    from engine.weights.source import home_folder, resolve

    home = home_folder()
    path = resolve(model, home)
    setup = Setup(path, wanted.clients, os.cpu_count() or 1)
    spoken = conversations(wanted, load_text_tokenizer(path))
    reasons = {name: _install(PEERS[name], home / "bench" / name) for name in names}
    return [
        Outcome(name, reason=reason)
        if (reason := reasons[name]) is not None
        else _measure(PEERS[name], home / "bench" / name, setup, spoken, wanted.tokens, timeout)
        for name in names
    ]


def _install(peer: Peer, env: Path) -> str | None:
    """None, or why it can't be."""
    print(f"{peer.name}: installing", file=sys.stderr, flush=True)
    try:
        peer.install(env)
    except PeerError as error:
        return str(error)
    return None


def _measure(
    peer: Peer, env: Path, setup: Setup, spoken: Sequence[Conversation], tokens: int, timeout: float
) -> Outcome:
    print(f"{peer.name}: starting", file=sys.stderr, flush=True)
    try:
        with peer.serve(env, setup) as endpoint:
            print(f"{peer.name}: ready after {endpoint.ready_seconds:.1f} s", file=sys.stderr, flush=True)
            run = asyncio.run(hold(Server(endpoint.base_url, endpoint.model), spoken, tokens, timeout))
    except (PeerError, BenchmarkError) as error:
        return Outcome(peer.name, reason=str(error))
    return Outcome(peer.name, summarise(run), endpoint.ready_seconds)


def rows(outcomes: Sequence[Outcome]) -> list[str]:
    """The Markdown table, and below it why a peer is missing."""
    ours = next((outcome.summary for outcome in outcomes if outcome.name == BASELINE), None)
    found = [_row(outcome, outcome.summary, ours) for outcome in outcomes if outcome.summary is not None]
    missing = [f"{outcome.name}: not measured: {outcome.reason}" for outcome in outcomes if outcome.summary is None]
    return [*table(HEAD, found), *missing]


def _row(outcome: Outcome, summary: Summary, ours: Summary | None) -> list[str]:
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
        _ratio(summary.seconds, ours.seconds if ours else None),
        _ratio(summary.ttft_sum, ours.ttft_sum if ours else None),
        _ratio(summary.tpot.median, ours.tpot.median if ours else None),
    ]


def _ratio(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f}" if theirs is not None and ours else NOTHING


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--peers", type=_names, default=["sapwood", "openvino", "llamacpp", "vllm"])
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    add_scenario(options)
    return options.parse_args()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"no peer named {', '.join(unknown) or text!r}; known: {', '.join(PEERS)}")
    return names


if __name__ == "__main__":
    main()
