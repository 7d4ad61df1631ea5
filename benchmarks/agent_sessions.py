"""Agent sessions through several gateways over one Redis, with a replica restarted and Redis away in the middle.

    python -m benchmarks.agent_sessions

Four gateways and four simulated replicas (see `agent_replica`) in processes of their own, one real Valkey. Each turn
of a session goes to any of the gateways. Redis is halted for 20 s when a third of the requests are answered, and a
replica is restarted while it is away. A follow-up is at home on the replica that answered the turn before. Outside the
outage are turns that began, and whose previous turn began, while Redis answered and since whose previous turn that
replica was not restarted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import httpx
import redis

from agents.stack import SAPWOOD
from benchmarks import machine
from benchmarks.gateway_load import WORDS
from benchmarks.options import count, end_cleanly, parser, write_json
from benchmarks.peers.base import PeerError, free_port, running
from engine.weights.source import home_folder
from gateway.affinity.embedded import embedded_redis

GAP_S = 3.0
"""A tool's run, on average."""
BACK_S = 1.0
"""So long after its return a gateway may still be finding Redis."""
PREDICTED = re.compile(r"predicted=(\d+)")
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "description": " ".join(WORDS * 4)}},
    }
    for name in ("read_file", "edit_file", "search", "shell", "run_tests")
]


@dataclass(frozen=True)
class Turn:
    session: int
    number: int
    began: float
    replica: str
    predicted: int | None
    cached: int
    prompt: int


@dataclass
class Trouble:
    """When what was away, by the monotonic clock."""

    redis_from: float = float("inf")
    redis_to: float = float("inf")
    restarted: float = float("inf")
    restarted_url: str = ""

    def touches(self, turn: Turn) -> bool:
        return self.redis_from <= turn.began <= self.redis_to + BACK_S

    def lost_home(self, before: Turn, turn: Turn) -> bool:
        return before.replica == self.restarted_url and before.began <= self.restarted <= turn.began


@dataclass(frozen=True)
class Figures:
    requests: int
    lost: int
    follow_ups: int
    """Outside the outage."""
    at_home: float
    predicted_error: float
    """Sum of the differences of predicted and actual cached tokens over all actual ones, outside the outage."""
    cached_share: float
    in_outage: int
    at_home_in_outage: float


class Sessions:
    def __init__(self, gateways: Sequence[str], turns: int, gap_s: float) -> None:
        self.done: list[Turn] = []
        self.lost: list[str] = []
        self._gateways = gateways
        self._turns = turns
        self._gap_s = gap_s

    async def run(self, http: httpx.AsyncClient, number: int) -> None:
        source = random.Random(number)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": " ".join(random.Random(0).choices(WORDS, k=1500))},
            {"role": "user", "content": f"Task {number}: {_text(source, 60)}"},
        ]
        await asyncio.sleep(source.uniform(0, self._gap_s * self._turns))
        for turn in range(1, self._turns + 1):
            message = await self._ask(http, source, number, turn, messages)
            if message is None:
                return
            call = message["tool_calls"][0]["id"]
            messages += [message, {"role": "tool", "tool_call_id": call, "content": _text(source, 250)}]
            await asyncio.sleep(source.uniform(0, 2 * self._gap_s))

    async def _ask(
        self, http: httpx.AsyncClient, source: random.Random, session: int, turn: int, messages: list[dict[str, Any]]
    ) -> dict[str, Any] | None:
        began = time.monotonic()
        url = f"{source.choice(self._gateways)}/v1/chat/completions"
        try:
            reply = await http.post(url, json={"model": "m", "tools": TOOLS, "messages": messages})
        except httpx.HTTPError as error:
            self.lost.append(repr(error))
            return None
        if reply.status_code != 200:
            self.lost.append(f"{reply.status_code} {reply.text[:200]}")
            return None
        body, told = reply.json(), PREDICTED.search(reply.headers.get("x-sapwood-cache", ""))
        cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
        predicted = int(told[1]) if told else None
        replica = reply.headers["x-sapwood-replica"]
        self.done.append(Turn(session, turn, began, replica, predicted, cached, body["usage"]["prompt_tokens"]))
        message: dict[str, Any] = body["choices"][0]["message"]
        return message


def _text(source: random.Random, words: int) -> str:
    return " ".join(source.choices(WORDS, k=words))


def figures(sessions: Sessions, trouble: Trouble) -> Figures:
    before = {(turn.session, turn.number): turn for turn in sessions.done}
    pairs = [
        (before[turn.session, turn.number - 1], turn)
        for turn in sessions.done
        if (turn.session, turn.number - 1) in before
    ]
    quiet = [pair for pair in pairs if not any(map(trouble.touches, pair)) and not trouble.lost_home(*pair)]
    loud = [pair for pair in pairs if any(map(trouble.touches, pair))]
    told = [turn for _, turn in quiet if turn.predicted is not None]
    actual = sum(turn.cached for turn in told)
    off = sum(abs((turn.predicted or 0) - turn.cached) for turn in told)
    return Figures(
        requests=len(sessions.done) + len(sessions.lost),
        lost=len(sessions.lost),
        follow_ups=len(quiet),
        at_home=_at_home(quiet),
        predicted_error=off / actual if actual and len(told) == len(quiet) else float("nan"),
        cached_share=sum(turn.cached for _, turn in pairs) / sum(turn.prompt for _, turn in pairs),
        in_outage=len(loud),
        at_home_in_outage=_at_home(loud),
    )


def _at_home(pairs: Sequence[tuple[Turn, Turn]]) -> float:
    return sum(before.replica == turn.replica for before, turn in pairs) / len(pairs) if pairs else float("nan")


class Fleet:
    """The processes. A replica keeps its port when it is restarted."""

    def __init__(self, stack: ExitStack, gateways: int, replicas: int) -> None:
        self._folder = home_folder() / "bench" / "agent-sessions"
        self._stack = stack
        self.redis = stack.enter_context(embedded_redis())
        self.replicas = [f"http://127.0.0.1:{free_port()}" for _ in range(replicas)]
        self._running = {url: self._replica(url) for url in self.replicas}
        self.gateways = [self._gateway(number) for number in range(gateways)]

    def _replica(self, url: str) -> ExitStack:
        port = url.rpartition(":")[2]
        command = [sys.executable, "-m", "benchmarks.agent_replica", "--port", port]
        own = self._stack.enter_context(ExitStack())
        own.enter_context(running(command, f"{url}/health", self._folder / f"replica-{port}.log"))
        return own

    def _gateway(self, number: int) -> str:
        port = free_port()
        given = [word for url in self.replicas for word in ("--upstream", url)]
        command = [*SAPWOOD, "gateway", "--port", str(port), "--redis", self.redis, *given]
        url = f"http://127.0.0.1:{port}"
        self._stack.enter_context(running(command, f"{url}/ready", self._folder / f"gateway-{number}.log"))
        return url

    def restart(self, url: str) -> None:
        self._running[url].close()
        self._running[url] = self._replica(url)

    def redis_process(self) -> int:
        with redis.Redis.from_url(self.redis) as client:
            return int(client.info("server")["process_id"])


async def disturb(fleet: Fleet, sessions: Sessions, after: int, outage_s: float) -> Trouble:
    """Once so many requests are answered. Redis comes back whatever happens."""
    while len(sessions.done) < after:  # noqa: ASYNC110 (a coarse look is enough)
        await asyncio.sleep(0.05)
    trouble, process = Trouble(restarted_url=fleet.replicas[0]), fleet.redis_process()
    trouble.redis_from = time.monotonic()
    os.kill(process, signal.SIGSTOP)
    try:
        await asyncio.sleep(outage_s / 4)
        trouble.restarted = time.monotonic()
        await asyncio.to_thread(fleet.restart, trouble.restarted_url)
        await asyncio.sleep(max(0.0, trouble.redis_from + outage_s - time.monotonic()))
    finally:
        os.kill(process, signal.SIGCONT)
    trouble.redis_to = time.monotonic()
    return trouble


async def run(fleet: Fleet, count: int, turns: int, outage_s: float, gap_s: float) -> tuple[Figures, list[str]]:
    sessions = Sessions(fleet.gateways, turns, gap_s)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
        disturbance = asyncio.create_task(disturb(fleet, sessions, count * turns // 3, outage_s))
        await asyncio.gather(*(sessions.run(http, number) for number in range(count)))
        if len(sessions.done) < count * turns // 3:  # too many were lost for it ever to begin
            disturbance.cancel()
        (trouble,) = await asyncio.gather(disturbance, return_exceptions=True)
        if not isinstance(trouble, Trouble):
            trouble = Trouble()
    return figures(sessions, trouble), sessions.lost


def words(found: Figures, lost: Sequence[str]) -> list[str]:
    return [
        f"{found.requests} requests, {found.lost} lost{': ' + lost[0] if lost else ''}",
        f"follow-ups outside the outage: {found.follow_ups}, at home {found.at_home:.2%}; "
        f"in it: {found.in_outage}, at home {found.at_home_in_outage:.2%}",
        f"predicted cached tokens are off by {found.predicted_error:.2%} of the actual ones; "
        f"{found.cached_share:.1%} of the prompts of follow-ups were cached",
    ]


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        with ExitStack() as stack:
            fleet = Fleet(stack, given.gateways, given.replicas)
            found, lost = asyncio.run(run(fleet, given.sessions, given.turns, given.outage, given.gap))
    except PeerError as error:
        sys.exit(f"agent_sessions: {error}")
    except KeyboardInterrupt:
        sys.exit("agent_sessions: interrupted")
    print(machine.describe())
    print("\n".join(words(found, lost)))
    write_json(given.json, {"machine": machine.describe(), "figures": asdict(found), "lost": lost})


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--gateways", type=count, default=4)
    options.add_argument("--replicas", type=count, default=4)
    options.add_argument("--sessions", type=count, default=200)
    options.add_argument("--turns", type=count, default=12)
    options.add_argument("--outage", type=float, default=20.0, help="seconds without Redis")
    options.add_argument("--gap", type=float, default=GAP_S, help="seconds between an answer and the next turn")
    return options.parse_args()


if __name__ == "__main__":
    main()
