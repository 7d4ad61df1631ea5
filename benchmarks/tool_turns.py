"""Conversations with tool calls at temperature 1: how much of a turn its follow-up has to compute again.

    python -m benchmarks.tool_turns

A turn's prompt and answer are tokens that were computed; the next prompt should begin with all of them. See
`benchmarks/tool_talk.py` for what can be reused at best. Half of the runs stream; calls are required or left to the
model; some answers are cut by a short limit, some by a stop string. All goes back as it came.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import httpx

from benchmarks import machine
from benchmarks.client import BenchmarkError
from benchmarks.options import count, end_cleanly, parser, write_json
from benchmarks.peers.base import PeerError, Setup
from benchmarks.peers.sapwood import SapwoodEngine
from benchmarks.report import NOTHING, percent, table
from benchmarks.tool_talk import Step, asks, talk
from engine.errors import StartError

HEAD = ("a turn ended by", "follow-ups", "all hit", "tokens computed again", "tokens computed for the first time")
TURNS = re.compile(r'^sapwood_engine_turns_total\{history="(\w+)"\} (\S+)$', re.MULTILINE)
SECONDS = 600.0


async def measure(base_url: str, model: str, given: argparse.Namespace) -> list[Step]:
    """All runs, so many at once. BenchmarkError where the server fails one."""
    steps: list[Step] = []
    room = asyncio.Semaphore(given.at_once)

    async def hold(run: int) -> None:
        async with room:
            turns = asks(run, given.turns, given.tokens, given.seed)
            steps.extend([step async for step in talk(http, model, run, turns)])

    try:
        async with httpx.AsyncClient(base_url=base_url, timeout=SECONDS) as http, asyncio.TaskGroup() as group:
            for run in range(given.runs):
                group.create_task(hold(run))
    except ExceptionGroup as error:
        first = error.exceptions[0]
        raise BenchmarkError(f"{base_url}: {str(first) or type(first).__name__}") from None
    return sorted(steps, key=lambda step: (step.run, step.number))


def histories(base_url: str) -> dict[str, int]:
    """The engine's own count of prompts by how their history was encoded."""
    try:
        answer = httpx.get(f"{base_url.removesuffix('/v1')}/metrics", timeout=30)
    except httpx.HTTPError as error:
        raise BenchmarkError(f"{base_url}: {str(error) or type(error).__name__}") from None
    return {name: int(float(value)) for name, value in TURNS.findall(answer.text)}


def rows(steps: Sequence[Step]) -> list[str]:
    """One row for each way to end, and one for all."""
    ends = sorted({step.end for step in steps})
    groups = [(end, [step for step in steps if step.end == end]) for end in ends]
    return table(HEAD, [_row(name, group) for name, group in [*groups, ("all", list(steps))]])


def _row(name: str, steps: Sequence[Step]) -> list[str]:
    hit = sum(step.recomputed == 0 for step in steps)
    again = spread([step.recomputed for step in steps])
    first = spread([step.tokens - step.reusable for step in steps if "stop string" not in step.end])
    return [name, str(len(steps)), percent(hit / len(steps) if steps else None), again, first]


def spread(tokens: Sequence[int]) -> str:
    """How many follow-ups have how many."""
    return ", ".join(f"{number} × {each}" for each, number in sorted(Counter(tokens).items())) or NOTHING


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        with _server(given) as (base_url, model):
            steps = asyncio.run(measure(base_url, model, given))
            counts = histories(base_url)
    except (BenchmarkError, PeerError, StartError) as error:
        sys.exit(f"tool_turns: {error}")
    except KeyboardInterrupt:
        sys.exit("tool_turns: interrupted")
    runs = {step.run: True for step in steps} | {step.run: False for step in steps if step.recomputed}
    print("\n".join(rows(steps)))
    print(f"\nruns without a recomputed token: {sum(runs.values())} of {len(runs)}")
    print("prompts by their history: " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    write_json(given.json, {"machine": machine.describe(), "histories": counts, "steps": [*map(_as_json, steps)]})


def _as_json(step: Step) -> Mapping[str, Any]:
    ask = {**asdict(step.ask), "cut": step.ask.cut.value}
    return {**asdict(step), "ask": ask, "recomputed": step.recomputed}


@contextmanager
def _server(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    from engine.weights.source import home_folder, resolve

    path = resolve(given.model, home_folder())
    setup = Setup(path, given.at_once, os.cpu_count() or 1)
    with SapwoodEngine().serve(home_folder() / "bench" / "sapwood", setup) as endpoint:
        yield endpoint.base_url, endpoint.model


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    options.add_argument("--runs", type=count, default=200, help="conversations")
    options.add_argument("--turns", type=count, default=4, help="of each")
    options.add_argument("--tokens", type=count, default=96, help="at most, in a turn that isn't cut short")
    options.add_argument("--at-once", type=count, default=8, help="conversations at the same time")
    options.add_argument("--seed", type=int, default=0)
    return options.parse_args()


if __name__ == "__main__":
    main()
