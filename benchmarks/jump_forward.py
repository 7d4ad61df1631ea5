"""What jump-forward saves of a tool call: its tokens that weren't sampled, and its time with and without them.

    python -m benchmarks.jump_forward

An agent with twelve tools, one call an answer, by the engine in this process. Four engines take turns: with and without
jump-forward, each with and without drafts. All have to make the same call: that is written once, and then the logits
of its tokens are raised above all others, as in `benchmarks/replay.py`. *Own* calls are what the model writes for the
task, *given* ones such as agents write (`benchmarks/agent_tools.py`). The prompt is cached: no time has its prefill.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks import corpus, inprocess, machine
from benchmarks.agent_tools import TYPICAL, agent_tools
from benchmarks.client import BenchmarkError
from benchmarks.given_calls import call_ids, call_text
from benchmarks.options import add_model, count, parser, write_json
from benchmarks.replay import Replay
from benchmarks.report import percent, table
from engine.errors import RequestError, StartError
from engine.output.tools.tool import read_tools
from engine.schedule.request import Request
from engine.server.prepare import Caller
from engine.server.wire import ChatRequest

if TYPE_CHECKING:
    from engine.model.base import Decoder

HEAD = ("calls", "tool_choice", "drafts", "number", "tokens each", "forced", "a step a token", "jumping", "ratio")
OWN, GIVEN = "own", "given"


@dataclass(frozen=True)
class Call:
    """One call to be made, and by which name its texts are nobody else's."""

    kind: str
    choice: str
    number: int
    body: Mapping[str, Any]
    tool: str
    arguments: Mapping[str, Any]

    @property
    def tenant(self) -> str:
        return f"{self.kind}/{self.choice}/{self.number}"


@dataclass(frozen=True)
class Timed:
    """How an engine made a call. Seconds from its submission to its end."""

    seconds: float
    forced: int


@dataclass(frozen=True)
class Pair:
    """The same call, a step for each token and jumping."""

    call: Call
    drafts: bool
    tokens: int
    plain: Timed
    jumping: Timed


class Maker:
    """An engine that makes calls."""

    def __init__(self, model: str, threads: int | None, jump_forward: bool, drafts: bool) -> None:
        self.service = inprocess.load(model, threads, kv_tokens=8192, jump_forward=jump_forward, drafts=drafts)
        self._own = self.service.engine.decoder
        self._replay = Replay(self._own)

    def write(self, call: Call) -> list[int]:
        """The tokens of a call: the given ones, or those that the model writes now."""
        request = self._request(call, f"{call.tenant}/first")
        if call.kind == OWN:
            self._finish(request, self._own)
            return list(request.output)
        preparer = self.service.preparer
        assert request.grammar is not None
        text = call_text(preparer.dialect.tools, call.tool, call.arguments, read_tools(agent_tools()), request.grammar)
        return call_ids(text, request.grammar, preparer.tokenizer)

    def make(self, call: Call, ids: Sequence[int]) -> Timed:
        """Say `ids`, which `write` gave. BenchmarkError where something else comes out."""
        self._finish(self._request(call, call.tenant, max_tokens=1), self._own)
        request = self._request(call, call.tenant, max_tokens=len(ids), temperature=0)
        self._replay.follow([*request.prompt, *ids])
        counters = self.service.engine.counters
        before, began = counters.forced_tokens, time.perf_counter()
        self._finish(request, self._replay)
        seconds = time.perf_counter() - began
        if list(request.output) != list(ids):
            raise BenchmarkError(f"the engine's call of {call.tool} is not what was recorded")
        return Timed(seconds, counters.forced_tokens - before)

    def _finish(self, request: Request, decoder: Decoder) -> None:
        self.service.engine.decoder = decoder
        inprocess.finish(self.service.engine, request)

    def _request(self, call: Call, tenant: str, **changed: Any) -> Request:
        try:
            body = ChatRequest.model_validate({**call.body, **changed})
            (request,) = self.service.preparer.chat(body, Caller(tenant)).requests
        except RequestError as error:
            raise BenchmarkError(str(error)) from None
        return request


def calls(kind: str, choice: str, number: int, tokens: int, temperature: float) -> Iterator[Call]:
    """So many calls of one kind, the same whenever they are asked for."""
    source = Random(f"jump/{kind}/{choice}")
    for each in range(number):
        tool, arguments = TYPICAL[each % len(TYPICAL)]
        named = {"type": "function", "function": {"name": tool}}
        body = {
            "messages": [{"role": "user", "content": f"{next(corpus.tasks(source))} Use {tool}."}],
            "tools": agent_tools(),
            "tool_choice": named if choice == "named" else choice,
            "parallel_tool_calls": False,
            "temperature": temperature,
            "max_tokens": tokens,
            "seed": each,
        }
        yield Call(kind, choice, each, body, tool, arguments)


def measure(wanted: Sequence[Call], makers: Mapping[tuple[bool, bool], Maker]) -> list[Pair]:
    """Each call on every engine before the next one. `makers` by jump-forward and drafts."""
    pairs = []
    for call in wanted:
        ids = makers[True, False].write(call)
        for drafts in (False, True):
            plain, jumping = (makers[jump, drafts].make(call, ids) for jump in (False, True))
            pairs.append(Pair(call, drafts, len(ids), plain, jumping))
    return pairs


def rows(pairs: Sequence[Pair]) -> list[str]:
    groups: dict[tuple[str, str, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.call.kind, pair.call.choice, pair.drafts), []).append(pair)
    return table(HEAD, [_row(*key, group) for key, group in sorted(groups.items())])


def _row(kind: str, choice: str, drafts: bool, group: Sequence[Pair]) -> list[str]:
    tokens = sum(pair.tokens for pair in group)
    forced = percent(sum(pair.jumping.forced for pair in group) / tokens)
    plain, jumping = (statistics.median(each) for each in zip(*map(_seconds, group), strict=True))
    both = statistics.median(after / before for before, after in map(_seconds, group))
    times = [f"{plain * 1e3:.0f} ms", f"{jumping * 1e3:.0f} ms", f"{both:.2f}"]
    return [kind, choice, "on" if drafts else "off", str(len(group)), f"{tokens / len(group):.0f}", forced, *times]


def _seconds(pair: Pair) -> tuple[float, float]:
    return pair.plain.seconds, pair.jumping.seconds


def main() -> None:
    given = _options()
    try:
        makers = {
            (jump, drafts): Maker(given.model, given.threads, jump, drafts)
            for jump in (False, True)
            for drafts in (False, True)
        }
        wanted = [
            call
            for kind in (GIVEN, OWN)
            for choice in ("required", "named")
            for call in calls(kind, choice, given.calls, given.tokens, given.temperature)
        ]
        measure(wanted[:1], makers)  # warms up
        pairs = measure(wanted, makers)
    except (BenchmarkError, StartError) as error:
        sys.exit(f"jump_forward: {error}")
    print("\n".join(rows(pairs)))
    write_json(given.json, {"machine": machine.describe(), "pairs": [*map(asdict, pairs)]})


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    add_model(options)
    options.add_argument("--calls", type=count, default=20, help="of each kind")
    options.add_argument("--tokens", type=count, default=96, help="at most, in a call of the model's own")
    options.add_argument("--temperature", type=float, default=0.7, help="of the model's own calls")
    return options.parse_args()


if __name__ == "__main__":
    main()
