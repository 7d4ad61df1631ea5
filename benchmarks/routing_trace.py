"""Requests to route: a public trace, or sessions of agents made up from a seed.

A trace has one request a line, as Mooncake (FAST '25) publishes them: `timestamp` in ms, `input_length` and
`output_length` in tokens, and `hash_ids`, one for each block of 512 prompt tokens; equal ids are equal prefixes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import BenchmarkError

BLOCK = 512


@dataclass(frozen=True, slots=True)
class Prompt:
    at: float
    """Seconds."""
    tokens: int
    output: int
    blocks: tuple[int, ...]
    head: int = 1
    """How many of the blocks are tools and system prompt, as far as a gateway can tell."""
    chat: bool = False
    """Whether every block is a message, so that a boundary once known is a boundary again; else text that goes on."""


def read(path: Path, limit: int | None = None, pace: float = 1.0) -> list[Prompt]:
    """`pace` 2 brings the requests twice as fast."""
    prompts = []
    try:
        with path.open() as lines:
            for line in lines:
                row = json.loads(line)
                at, blocks = row["timestamp"] / 1000 / pace, tuple(row["hash_ids"])
                prompts.append(Prompt(at, row["input_length"], row["output_length"], blocks))
                if len(prompts) == limit:
                    break
    except (OSError, ValueError, KeyError) as error:
        raise BenchmarkError(f"{path} is no trace: {error!r}") from None
    return prompts


def agents(sessions: int, seconds: float, seed: int) -> list[Prompt]:
    """Coding agents: one of four shared heads of 6,000 to 20,000 tokens, then turns of tool results and answers with
    short gaps; in one session of three, sub-agents that start together on the same head."""
    draw = random.Random(seed)
    heads = [_Blocks(draw.randint(12, 40)) for _ in range(4)]
    prompts: list[Prompt] = []
    for _ in range(sessions):
        head, began = draw.choice(heads), draw.uniform(0, seconds)
        burst = draw.randint(2, 6) if draw.random() < 1 / 3 else 1
        for _ in range(burst):
            prompts += _session(draw, head, began + draw.random())
    return sorted(prompts, key=lambda prompt: prompt.at)


class _Blocks:
    """Ids that nothing else has."""

    _next = 0

    def __init__(self, count: int) -> None:
        self.ids = tuple(range(_Blocks._next, _Blocks._next + count))
        _Blocks._next += count


def _session(draw: random.Random, head: _Blocks, at: float) -> Iterator[Prompt]:
    blocks = head.ids
    for _ in range(min(60, 1 + int(draw.expovariate(1 / 14)))):
        blocks += _Blocks(max(1, round(draw.expovariate(1 / 3)))).ids
        output = 20 + int(draw.expovariate(1 / 300))
        yield Prompt(at, len(blocks) * BLOCK, output, blocks, len(head.ids), chat=True)
        at += 0.03 * output + draw.lognormvariate(1.5, 1.2)
