"""Four turns of a coding agent, by several clients at once, against any OpenAI server.

    python -m benchmarks.agent_loop                          starts `sapwood up` for itself
    python -m benchmarks.agent_loop --base-url URL --model NAME

See docs/benchmarks.md for the turns and the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from benchmarks import machine
from benchmarks.client import BenchmarkError, Run, Server, hold
from benchmarks.options import add_run, add_scenario, end_cleanly, parser, scenario, write_json
from benchmarks.plot import ttft_chart
from benchmarks.report import Summary, describe, summarise
from benchmarks.scenario import conversations, load_text_tokenizer
from engine.errors import StartError


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        run = _measure(given)
    except (BenchmarkError, StartError) as error:
        sys.exit(f"agent_loop: {error}")
    except KeyboardInterrupt:
        sys.exit("agent_loop: interrupted")
    summary = summarise(run)
    print(describe(summary))
    write_json(given.json, _record(given, run, summary))
    if given.plot is not None:
        given.plot.write_text(ttft_chart({given.model: summary}))


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--base-url", help="up to and including /v1; without it `sapwood up` is started")
    options.add_argument("--model", default="smollm2", help="the model's name at the server")
    options.add_argument("--tokenizer", default="smollm2", help="the model whose tokenizer measures the texts")
    options.add_argument("--replicas", type=int, default=1, help="engines of the `sapwood up` that is started")
    add_scenario(options)
    add_run(options)
    return options.parse_args()


def _measure(given: argparse.Namespace) -> Run:
    from engine.weights.source import home_folder, resolve

    tokenizer = load_text_tokenizer(resolve(given.tokenizer, home_folder()))
    spoken = conversations(scenario(given), tokenizer)
    with _server(given) as server:
        return asyncio.run(hold(server, spoken, given.tokens, given.timeout))


@contextmanager
def _server(given: argparse.Namespace) -> Iterator[Server]:
    if given.base_url:
        yield Server(given.base_url, given.model)
        return
    from agents.stack import Stack, StackError

    with Stack() as stack:
        up = stack.start("up", "up", "--port", "0", "--model", given.model, "--replicas", str(given.replicas))
        try:
            stack.wait_ready([up])
        except StackError as error:
            raise BenchmarkError(str(error)) from None
        yield Server(f"{up.url}/v1", given.model)


def _record(given: argparse.Namespace, run: Run, summary: Summary) -> dict[str, Any]:
    return {
        "machine": machine.describe(),
        "scenario": asdict(scenario(given)),
        "summary": summary.as_json(),
        "turns": [asdict(turn) for turn in run.turns],
    }


if __name__ == "__main__":
    main()
