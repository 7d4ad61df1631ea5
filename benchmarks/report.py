"""From turns to figures: medians, percentiles, rates, shares. Pure arithmetic and formatting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.client import Run, Turn

NOTHING = "-"


@dataclass(frozen=True)
class Spread:
    """Median and 99th percentile, in seconds; None where nothing was measured."""

    median: float | None
    p99: float | None


@dataclass(frozen=True)
class Summary:
    """The figures of one run. Shares are those of turns 2 and later, None where the server doesn't say."""

    seconds: float
    ttft: tuple[Spread, ...]
    tpot: Spread
    prompt_tokens: int
    output_tokens: int
    cached_share: float | None
    reused_share: float | None

    @property
    def output_rate(self) -> float:
        return self.output_tokens / self.seconds

    @property
    def total_rate(self) -> float:
        return (self.prompt_tokens + self.output_tokens) / self.seconds

    @property
    def ttft_sum(self) -> float | None:
        """The medians of all turns together: one figure for how long a client waits."""
        medians = [spread.median for spread in self.ttft if spread.median is not None]
        return sum(medians) if medians else None

    def as_json(self) -> dict[str, Any]:
        rates = {"output_tokens_per_second": self.output_rate, "total_tokens_per_second": self.total_rate}
        return {**asdict(self), **rates}


def summarise(run: Run) -> Summary:
    numbers = sorted({turn.number for turn in run.turns})
    return Summary(
        seconds=run.seconds,
        ttft=tuple(spread([turn.ttft for turn in run.turns if turn.number == number]) for number in numbers),
        tpot=spread([turn.per_token for turn in run.turns if turn.per_token is not None]),
        prompt_tokens=sum(turn.prompt for turn in run.turns),
        output_tokens=sum(turn.completion for turn in run.turns),
        cached_share=cached_share(run.turns),
        reused_share=reused_share(run.turns),
    )


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), percentile(values, 99)) if values else Spread(None, None)


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank: the smallest value that at least `percent` % of the values do not exceed."""
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def cached_share(turns: Sequence[Turn]) -> float | None:
    """The part of the prompts of turns 2 and later that the server didn't compute."""
    return _share([(turn.cached, turn.prompt) for turn in turns if turn.number > 1])


def reused_share(turns: Sequence[Turn]) -> float | None:
    """The part of what it could have reused: all that it had computed of the same conversation."""
    before = {(turn.client, turn.number): turn for turn in turns}
    pairs = [
        (turn.cached, reusable(before[turn.client, turn.number - 1]))
        for turn in turns
        if (turn.client, turn.number - 1) in before
    ]
    return _share(pairs)


def reusable(previous: Turn) -> int:
    """Tokens that have keys and values after a turn: its prompt and its answer, of which the last token was never an
    input."""
    return previous.prompt + max(0, previous.completion - 1)


def _share(pairs: Sequence[tuple[int | None, int]]) -> float | None:
    """None as soon as one is unknown: a share of what happens to be known would mislead."""
    total = sum(whole for _, whole in pairs)
    known = [part for part, _ in pairs if part is not None]
    return sum(known) / total if total and len(known) == len(pairs) else None


def describe(summary: Summary) -> str:
    """What `agent_loop` prints."""
    lines = [
        f"time for all: {summary.seconds:.1f} s",
        f"output: {summary.output_rate:.1f} tokens/s; prompts and output: {summary.total_rate:.0f} tokens/s",
        "",
        *table(
            ["", "median", "p99"],
            [
                *([f"TTFT, turn {n}", _s(each.median), _s(each.p99)] for n, each in enumerate(summary.ttft, 1)),
                ["TPOT", milliseconds(summary.tpot.median), milliseconds(summary.tpot.p99)],
            ],
        ),
        "",
        f"cached share, turns 2 and later: {percent(summary.cached_share)}"
        f" of the prompts, {percent(summary.reused_share)} of what is reusable",
    ]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds * 1000:.0f} ms"


def ratio(value: float | None, other: float | None) -> str:
    return f"{value / other:.2f}" if value is not None and other else NOTHING


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.1%}"


def _s(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.2f} s"
