"""What a grammar adds to a request, as its client sees it, on several servers.

    python -m benchmarks.grammar_http --peers sapwood,vllm

The same prompt, greedily and for the same number of tokens, by turns free and held to a JSON schema: a call of one of
twelve tools, 16 kB in all. Medians of both, and their difference; first comes the first request with that schema, less
the median of the free ones. The prompt is cached. sapwood runs without drafts, and both with and without jump-forward,
which makes the constrained answer the faster one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from benchmarks import grammar, machine
from benchmarks.client import BenchmarkError
from benchmarks.options import count, end_cleanly, parser, write_json
from benchmarks.peers import BASELINE, PEERS, peer_names
from benchmarks.peers.base import Endpoint, Peer, Setup
from benchmarks.peers.run import Outcome, missing, run_each
from benchmarks.peers.sapwood import SapwoodEngine
from benchmarks.report import ratio, table
from engine.errors import StartError

HEAD = ("server", "free", "constrained", "added", "a token", "first time added", "added ÷ sapwood's")
PLAIN = "sapwood, no jump-forward"
SECONDS = 120.0


@dataclass(frozen=True)
class Costs:
    """Seconds (medians)."""

    free: float
    constrained: float
    first: float
    tokens: int

    @property
    def added(self) -> float:
        return self.constrained - self.free


def call_schema() -> dict[str, Any]:
    """A call of one of the tools, as vLLM lays down required calls."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": [tool.name]}, "parameters": dict(tool.parameters)},
            "required": ["name", "parameters"],
            "additionalProperties": False,
        }
        for tool in grammar.tools()
    ]
    return {"type": "array", "minItems": 1, "items": {"anyOf": calls}}


def measure(endpoint: Endpoint, tokens: int, rounds: int) -> Costs:
    """BenchmarkError where an answer isn't of that many tokens."""
    schema = {"name": "call", "strict": True, "schema": call_schema()}
    held = {"response_format": {"type": "json_schema", "json_schema": schema}}
    try:
        with httpx.Client(base_url=endpoint.base_url, timeout=SECONDS) as http:
            for _ in range(2):
                _seconds(http, endpoint.model, tokens, {})
            first = _seconds(http, endpoint.model, tokens, held)
            pairs = [tuple(_seconds(http, endpoint.model, tokens, more) for more in ({}, held)) for _ in range(rounds)]
    except httpx.HTTPError as error:
        raise BenchmarkError(f"{endpoint.base_url}: {str(error) or type(error).__name__}") from None
    free, constrained = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Costs(free, constrained, first - free, tokens)


def _seconds(http: httpx.Client, model: str, tokens: int, more: dict[str, Any]) -> float:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Call the tool that writes the file src/engine/core.py."}],
        "max_tokens": tokens,
        "min_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        **more,
    }
    began = time.perf_counter()
    answer = http.post("chat/completions", json=body)
    seconds = time.perf_counter() - began
    if answer.status_code != 200:
        raise BenchmarkError(f"{answer.url} answered {answer.status_code}: {answer.text[:300]}")
    generated = answer.json()["usage"]["completion_tokens"]
    if generated != tokens:
        raise BenchmarkError(f"{answer.url} answered {generated} tokens instead of {tokens}")
    return seconds


def rows(outcomes: Sequence[Outcome[Costs]]) -> list[str]:
    """Ratios are over sapwood that samples each token, as the others do."""
    ours = next((each.figures for each in outcomes if each.name == PLAIN), None)
    found = [_row(each.name, each.figures, ours) for each in outcomes if each.figures is not None]
    return [*table(HEAD, found), *missing(outcomes)]


def _row(name: str, costs: Costs, ours: Costs | None) -> list[str]:
    times = [f"{seconds * 1e3:.1f} ms" for seconds in (costs.free, costs.constrained, costs.added)]
    each = f"{costs.added / costs.tokens * 1e6:.0f} µs"
    return [name, *times, each, f"{costs.first * 1e3:.1f} ms", ratio(costs.added, ours.added if ours else None)]


def _peers(names: Sequence[str]) -> list[Peer]:
    """Ourselves twice."""
    ours = [SapwoodEngine(flags=("--no-drafts",)), SapwoodEngine(PLAIN, ("--no-drafts", "--no-jump-forward"))]
    return [peer for name in names for peer in (ours if name == BASELINE else [PEERS[name]])]


def main() -> None:
    given = _options()
    end_cleanly()
    from engine.weights.source import home_folder, resolve

    try:
        setup = Setup(resolve(given.model, home_folder()), 1, os.cpu_count() or 1)
        outcomes = run_each(
            _peers(given.peers),
            home_folder() / "bench",
            setup,
            lambda endpoint: measure(endpoint, given.tokens, given.rounds),
        )
    except StartError as error:
        sys.exit(f"grammar_http: {error}")
    except KeyboardInterrupt:
        sys.exit("grammar_http: interrupted")
    print("\n".join(rows(outcomes)))
    peers = [{"name": each.name, "reason": each.reason, "costs": _as_json(each.figures)} for each in outcomes]
    write_json(given.json, {"machine": machine.describe(), "peers": peers})


def _as_json(costs: Costs | None) -> dict[str, float] | None:
    return {**asdict(costs), "added": costs.added} if costs else None


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--peers", type=peer_names, default=["sapwood", "vllm"])
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    options.add_argument("--tokens", type=count, default=32, help="of each answer")
    options.add_argument("--rounds", type=count, default=20, help="of a free and a constrained request")
    return options.parse_args()


if __name__ == "__main__":
    main()
