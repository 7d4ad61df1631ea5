"""Policies of placement over simulated replicas: time to the first token, and what of the prompts was cached.

    python -m benchmarks.routing --trace conversation_trace.jsonl
    python -m benchmarks.routing

The gateway's placement, bindings and plans are the real ones; replicas, and other routers' rules, are models of them.
Without a trace the requests are those of made-up agents.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.client import BenchmarkError
from benchmarks.options import count, counts, parser, write_json
from benchmarks.report import table
from benchmarks.routing_fleet import EVEN, ROUGH, UNEVEN, Engine, Fleet, Policy, Served
from benchmarks.routing_ours import Ours, plans
from benchmarks.routing_peers import PEERS, Peer, Rule
from benchmarks.routing_trace import Prompt, agents, read
from gateway.config_pools import PolicyName
from gateway.placement.policy import policy_named
from gateway.proxy.plan import Plan

REPLICAS = 8
CAPACITIES = (3_000_000, 800_000)
ENGINES: Mapping[str, Engine] = {"even": EVEN, "rough": ROUGH, "uneven": UNEVEN}
GUESSES = {"rate guessed right": 1.0, "guess 4 times too low": 0.25, "guess 4 times too high": 4.0}
HEAD = ("policy", "TTFT mean", "p50", "p90", "p99", "cached", "work max ÷ mean")
Make = Callable[[Fleet], Policy]


@dataclass(frozen=True)
class Figures:
    """Seconds; `cached` is the part of all prompt tokens that was not computed."""

    mean: float
    p50: float
    p90: float
    p99: float
    cached: float
    imbalance: float


def figures(prompts: Sequence[Prompt], served: Sequence[Served], fleet: Fleet) -> Figures:
    """Percentiles by nearest rank."""
    ttft = sorted(one.ttft for one in served)
    work = [replica.computed for replica in fleet.replicas]
    mean_work = sum(work) / len(work)
    return Figures(
        mean=sum(ttft) / len(ttft),
        p50=ttft[len(ttft) // 2],
        p90=ttft[len(ttft) * 9 // 10],
        p99=ttft[len(ttft) * 99 // 100],
        cached=sum(one.cached for one in served) / sum(prompt.tokens for prompt in prompts),
        imbalance=max(work) / mean_work if mean_work else 1.0,
    )


def policies(planned: Sequence[Plan], rate: float) -> dict[str, Make]:
    """All of them by name, the gateway's own first."""
    own = {f"seconds, {name}": _ours(PolicyName.SECONDS, rate * factor, planned) for name, factor in GUESSES.items()}
    others = [name for name in PolicyName if name is not PolicyName.SECONDS]
    own |= {name.value: _ours(name, rate, planned) for name in others}
    return own | {name: partial(_peer, rule) for name, rule in PEERS.items()}


def _ours(name: PolicyName, guess: float, planned: Sequence[Plan]) -> Make:
    return lambda fleet: Ours(fleet, policy_named(name, guess), planned)


def _peer(rule: Callable[[Fleet], Rule], fleet: Fleet) -> Policy:
    return Peer(rule(fleet))


def measure(prompts: Sequence[Prompt], engine: Engine, capacity: int, make: Make, seed: int) -> Figures:
    fleet = Fleet(engine, capacity, REPLICAS, seed)
    return figures(prompts, fleet.run(prompts, make(fleet)), fleet)


def rows(found: Mapping[str, Figures]) -> list[str]:
    return table(HEAD, [[name, *_cells(one)] for name, one in found.items()])


def _cells(one: Figures) -> list[str]:
    seconds = [f"{value:.2f} s" for value in (one.mean, one.p50, one.p90, one.p99)]
    return [*seconds, f"{100 * one.cached:.1f} %", f"{one.imbalance:.2f}"]


def run(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, Figures]]]:
    """One table for each engine and capacity."""
    prompts = _prompts(given)
    planned = plans(prompts)
    print(f"{len(prompts)} requests in {prompts[-1].at - prompts[0].at:.0f} s, {REPLICAS} replicas", flush=True)
    for name in given.engines:
        for capacity in given.capacities:
            makes = policies(planned, ENGINES[name].rate)
            found = {each: measure(prompts, ENGINES[name], capacity, make, given.seed) for each, make in makes.items()}
            yield f"{name} replicas of {capacity / 1e6:g} M tokens", found


def _prompts(given: argparse.Namespace) -> list[Prompt]:
    limit = 1000 if given.quick else None
    if given.trace:
        return read(given.trace, limit, given.pace)
    return agents(given.sessions, given.sessions * 5 / given.pace, given.seed)[:limit]


def main() -> None:
    given = _options()
    began = time.perf_counter()
    results = {}
    try:
        for title, found in run(given):
            print("\n".join(["", title, "", *rows(found)]), flush=True)
            results[title] = {name: asdict(one) for name, one in found.items()}
    except BenchmarkError as error:
        sys.exit(f"routing: {error}")
    print(f"\n{time.perf_counter() - began:.0f} s")
    write_json(given.json, {"machine": machine.describe(), "figures": results})


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--trace", type=Path, help="requests as a JSON-lines file; see benchmarks/routing_trace.py")
    options.add_argument("--sessions", type=count, default=200, help="of made-up agents, if there is no trace")
    options.add_argument("--pace", type=float, default=1.0, help="requests come so much faster")
    options.add_argument("--engines", type=_engines, default=list(ENGINES), help=", ".join(ENGINES))
    options.add_argument("--capacities", type=counts, default=CAPACITIES, help="tokens")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--quick", action="store_true", help="the first 1,000 requests")
    return options.parse_args()


def _engines(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ENGINES]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(ENGINES)}")
    return names


if __name__ == "__main__":
    main()
