"""What a cached turn waits for, beside the arithmetic that it can't avoid.

    python -m benchmarks.cached_turn

A server is started, and a conversation of each length is put into its cache by holding it. Then turns with new text
follow: the time to the first token of each, as the client sees it, stands beside the forward pass of as many new tokens
at the same depth, timed in this process. Both alternate, so that noise meets them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks import corpus, inprocess, machine
from benchmarks.client import BenchmarkError, Message, Server, Turn, ask_alone
from benchmarks.options import add_model, count, counts, end_cleanly, parser, write_json
from benchmarks.peers.base import PeerError, Setup
from benchmarks.peers.sapwood import SapwoodEngine
from benchmarks.report import milliseconds, ratio, table
from benchmarks.scenario import TextTokenizer, cut
from engine.errors import StartError

if TYPE_CHECKING:
    from engine.server.service import Service

HEAD = ("history", "new tokens", "cached turn, TTFT", "forward of the new tokens", "ratio")
WARM_UP = 1
ANSWER = 2
"""Tokens of each answer: the first may be one that has no text."""


@dataclass(frozen=True)
class Figures:
    """Medians. `history` and `new` are what the server said: tokens from its cache, and those it computed."""

    history: int
    new: int
    ttft: float
    forward: float


class Forward:
    """The other side of the comparison: forward passes of an engine in this process."""

    def __init__(self, model: str, threads: int, kv_tokens: int) -> None:
        self.service: Service = inprocess.load(model, threads, kv_tokens=kv_tokens, drafts=False)
        self._passes = inprocess.timed(self.service.engine).passes
        self._source = Random(0)
        inprocess.fill_with_noise(self.service.engine)

    def seconds(self, history: int, new: int) -> float:
        """In the forward passes that `new` tokens need behind a cached history, whatever the steps they take."""
        engine, tenant = self.service.engine, str(history)
        prefix = inprocess.random_ids(self.service, history, Random(history))
        inprocess.pretend_cached(engine, tenant, prefix)
        own = inprocess.random_ids(self.service, new, self._source)
        request = inprocess.request(self.service, [*prefix, *own], 1, tenant)
        self._passes.clear()
        inprocess.finish(engine, request)
        if request.cached != history:
            raise BenchmarkError(f"{request.cached} of {history} cached tokens were found again")
        return sum(each.seconds for each in self._passes)


def measure(server: Server, forward: Forward, texts: TextTokenizer, history: int, new: int, rounds: int) -> Figures:
    """Rounds after the first see the same cached tokens: the conversation, and the opening of a user's turn."""
    source = Random(f"cached turn/{history}")
    before = _conversation(server, cut(corpus.code(source), history, texts))
    turns, forwards = [], []
    for _ in range(WARM_UP + rounds):
        text = cut(corpus.pytest_output(source), new, texts)
        turns.append(_turn(server, [*before, {"role": "user", "content": text}]))
        cached = turns[-1].cached or 0
        forwards.append(forward.seconds(cached, turns[-1].prompt - cached))
    return _figures(turns[WARM_UP:], forwards[WARM_UP:])


def _conversation(server: Server, text: str) -> list[Message]:
    """One turn, held so that it is cached: the text and the server's answer."""
    said: list[Message] = [{"role": "user", "content": text}]
    answer = asyncio.run(ask_alone(server, said, ANSWER))
    return [*said, {"role": "assistant", "content": answer.text}]


def _turn(server: Server, messages: Sequence[Message]) -> Turn:
    answer = asyncio.run(ask_alone(server, messages, ANSWER))
    if answer.first is None:
        raise BenchmarkError("an answer without text: its first token can't be timed")
    return answer.turn(0, 2)


def _figures(turns: Sequence[Turn], forwards: Sequence[float]) -> Figures:
    history = statistics.median_low([turn.cached or 0 for turn in turns])
    new = statistics.median_low([turn.prompt - (turn.cached or 0) for turn in turns])
    return Figures(history, new, statistics.median([turn.ttft for turn in turns]), statistics.median(forwards))


def rows(found: Sequence[Figures]) -> list[str]:
    return table(
        HEAD,
        [
            [str(f.history), str(f.new), milliseconds(f.ttft), milliseconds(f.forward), ratio(f.ttft, f.forward)]
            for f in found
        ],
    )


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        found = _run(given)
    except (BenchmarkError, PeerError, StartError) as error:
        sys.exit(f"cached_turn: {error}")
    except KeyboardInterrupt:
        sys.exit("cached_turn: interrupted")
    print("\n".join(rows(found)))
    write_json(given.json, {"machine": machine.describe(), "turns": [asdict(figures) for figures in found]})


def _run(given: argparse.Namespace) -> list[Figures]:
    from engine.weights.source import home_folder, resolve

    path: Path = resolve(given.model, home_folder())
    threads = given.threads or os.cpu_count() or 1
    forward = Forward(str(path), threads, 2 * (sum(given.histories) + given.new) + 4096)
    texts = forward.service.preparer.tokenizer
    with SapwoodEngine().serve(home_folder() / "bench" / "sapwood", Setup(path, 1, threads)) as endpoint:
        server = Server(endpoint.base_url, endpoint.model)
        return [measure(server, forward, texts, history, given.new, given.rounds) for history in given.histories]


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    add_model(options)
    options.add_argument("--histories", type=counts, default=[512, 2048, 5000], help="tokens, with commas between")
    options.add_argument("--new", type=count, default=320, help="tokens of each new turn")
    options.add_argument("--rounds", type=count, default=9)
    return options.parse_args()


if __name__ == "__main__":
    main()
