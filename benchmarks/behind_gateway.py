"""Real servers behind the gateway: an agent's session with tool calls, first directly, then through `sapwood gateway`.

    python -m benchmarks.behind_gateway --peers llamacpp,vllm

One server at a time; llama.cpp leaves a core to the gateway. The gateway knows the server by two addresses, as two
replicas, so that a turn can miss its home. Answers are not used: calls and results are scripted, so that both ways ask
for the same tokens. Each session begins with a number of its own, so that none finds another's prefix. Ends with
status 1 if a turn fails or misses its home.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import httpx

from agents.stack import SAPWOOD
from benchmarks import corpus, machine
from benchmarks.agent_tools import TYPICAL, agent_tools
from benchmarks.client import Answer, BenchmarkError
from benchmarks.client import Turn as Timed
from benchmarks.options import count, end_cleanly, parser, write_json
from benchmarks.peers import PEERS, peer_names
from benchmarks.peers.base import Endpoint, Setup, free_port, running
from benchmarks.peers.run import missing, run_each
from benchmarks.report import NOTHING, milliseconds, table
from engine.errors import StartError
from engine.weights.source import home_folder, resolve

TURNS = 6
ANSWER_TOKENS = 4
TOOLS = agent_tools()[:8]
RULES, RESULTS = 6, 4
"""Lines of the system message beside the tools, and of each tool's result."""
PREDICTED = re.compile(r"predicted=(\d+)")
HEAD = ("turn", "prompt", "cached, direct", "cached, gateway", "predicted", "TTFT direct", "TTFT gateway")


@dataclass(frozen=True)
class Turn:
    """One turn of one session. `home` and `predicted` are what the gateway says, None without one."""

    number: int
    prompt: int
    cached: int | None
    ttft: float
    home: str | None
    predicted: int | None


@dataclass(frozen=True)
class Pair:
    """The same turn both ways."""

    direct: Turn
    through: Turn


def script() -> Iterator[Sequence[dict[str, Any]]]:
    """What each turn adds to the history. This model's template shows neither tools nor calls: their text is in the
    contents too."""
    source = Random("behind the gateway")
    rules, output = corpus.rules(source), corpus.pytest_output(source)
    lines = [*(next(rules) for _ in range(RULES)), json.dumps(TOOLS)]
    task = {"role": "user", "content": next(corpus.tasks(source))}
    yield [{"role": "system", "content": "\n".join(lines)}, task]
    for number, (name, arguments) in enumerate(TYPICAL[: TURNS - 1]):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        told = "\n".join(next(output) for _ in range(RESULTS))
        yield [
            {"role": "assistant", "content": json.dumps(function), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": told},
        ]


def session(base_url: str, model: str, number: int) -> Iterator[Turn]:
    """BenchmarkError where a turn fails."""
    messages: list[dict[str, Any]] = []
    # A connection for each request: some servers close theirs after a stream without saying so.
    no_reuse = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=base_url, timeout=600, limits=no_reuse, trust_env=False) as http:
        for turn, added in enumerate(script(), 1):
            messages += added
            if turn == 1:
                messages[0]["content"] = f"{number}: {messages[0]['content']}"
            try:
                yield ask(http, model, messages, turn)
            except httpx.HTTPError as error:
                raise BenchmarkError(f"turn {turn}: {str(error) or type(error).__name__}") from None


def ask(http: httpx.Client, model: str, messages: Sequence[dict[str, Any]], number: int) -> Turn:
    body = {
        "model": model,
        "messages": messages,
        "tools": TOOLS,
        "tool_choice": "none",
        "max_tokens": ANSWER_TOKENS,
        "min_tokens": ANSWER_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = Answer()
    with http.stream("POST", "chat/completions", json=body) as reply:
        if reply.status_code != 200:
            raise BenchmarkError(f"turn {number}: {reply.status_code} {reply.read().decode(errors='replace')[:300]}")
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                answer.take(json.loads(line[6:]))
    if answer.first is None or not answer.usage:
        raise BenchmarkError(f"turn {number}: the answer has no text or no usage")
    return seen(answer.turn(0, number), reply.headers)


def seen(timed: Timed, headers: httpx.Headers) -> Turn:
    told = PREDICTED.search(headers.get("x-sapwood-cache", ""))
    home = headers.get("x-sapwood-replica")
    return Turn(timed.number, timed.prompt, timed.cached, timed.ttft, home, int(told[1]) if told else None)


def measure(endpoint: Endpoint, rounds: int) -> list[list[Pair]]:
    """For each round its turns. The first session both ways warms up and is not counted."""
    found = []
    with gateway(endpoint) as front:
        for number in range(rounds + 1):
            direct = list(session(endpoint.base_url, endpoint.model, 1000 + 2 * number))
            through = list(session(front, endpoint.model, 1001 + 2 * number))
            homes = {turn.home for turn in through}
            if len(homes) != 1 or None in homes:
                raise BenchmarkError(f"a session of the gateway had {len(homes)} homes: {homes}")
            found.append([Pair(*pair) for pair in zip(direct, through, strict=True)])
    return found[1:]


@contextmanager
def gateway(endpoint: Endpoint) -> Iterator[str]:
    """The base URL of a gateway that has the server twice, by two names of its address."""
    root, port = endpoint.base_url.removesuffix("/v1"), free_port()
    command = [*SAPWOOD, "gateway", "--port", str(port)]
    command += ["--upstream", root, "--upstream", root.replace("127.0.0.1", "localhost")]
    url = f"http://127.0.0.1:{port}"
    log = home_folder() / "bench" / "behind-gateway" / "gateway.log"
    # A heartbeat before a slow answer would leave no header to name the home.
    with running(command, f"{url}/ready", log, {"SAPWOOD_GATEWAY_HEARTBEAT_S": "0"}):
        yield f"{url}/v1"


def rows(rounds: Sequence[Sequence[Pair]]) -> list[str]:
    """Medians over the rounds, turn by turn."""
    return table(HEAD, [_row(turns) for turns in zip(*rounds, strict=True)])


def _row(pairs: Sequence[Pair]) -> list[str]:
    direct, through = [pair.direct for pair in pairs], [pair.through for pair in pairs]
    return [
        str(direct[0].number),
        _median([turn.prompt for turn in through]),
        _median([turn.cached for turn in direct]),
        _median([turn.cached for turn in through]),
        _median([turn.predicted for turn in through]),
        milliseconds(statistics.median(turn.ttft for turn in direct)),
        milliseconds(statistics.median(turn.ttft for turn in through)),
    ]


def _median(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):g}" if len(known) == len(values) else NOTHING


def main() -> None:
    given = _options()
    end_cleanly()
    failures: list[str] = []

    def work(endpoint: Endpoint) -> list[list[Pair]]:
        try:
            return measure(endpoint, given.rounds)
        except BenchmarkError as error:
            failures.append(str(error))
            raise

    try:
        setup = Setup(resolve(given.model, home_folder()), 2, max(1, (os.cpu_count() or 1) - 1))
        outcomes = run_each([PEERS[name] for name in given.peers], home_folder() / "bench", setup, work)
    except StartError as error:
        sys.exit(f"behind_gateway: {error}")
    except KeyboardInterrupt:
        sys.exit("behind_gateway: interrupted")
    print(machine.describe())
    measured = {each.name: each.figures for each in outcomes if each.figures is not None}
    for name, rounds in measured.items():
        print("\n".join(["", f"{name}, median of {len(rounds)} sessions, each at one home:", "", *rows(rounds)]))
    print("\n".join(missing(outcomes)))
    figures = {name: [[asdict(pair) for pair in pairs] for pairs in rounds] for name, rounds in measured.items()}
    write_json(given.json, {"machine": machine.describe(), "peers": figures, "failures": failures})
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--peers", type=peer_names, default=["llamacpp", "vllm"])
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    options.add_argument("--rounds", type=count, default=3, help="sessions each way")
    return options.parse_args()


if __name__ == "__main__":
    main()
