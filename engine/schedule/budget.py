"""How many prompt tokens a step may compute next to running streams, from what steps took before.

A step that decodes and prefills takes about

    decode(streams) + tokens * prefill(depth)        seconds

and every running stream waits for all of it. So the tokens are chosen to bring a step to a target time. Both terms are
moving estimates from the steps themselves: no hardware, model or kernel is known here, and no clock.
An estimate that is wrong corrects itself: whatever is taken for `decode`, the number of tokens
settles where a step takes the target.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = 128
"""A step with streams computes at least so many prompt tokens: prompts move on, and kernels stay efficient."""

STRETCH = 4.0
"""The target is never less than this many decode-only steps: with many streams a fixed one would leave prompts
nothing, and fewer prompt tokens a step would hardly help the streams any more."""

KEEP = 0.7
"""How much of an estimate one more step leaves: it looks back about three steps."""

DEPTH = 1024
"""Depths are told apart in doublings of this many tokens: the cost of a token grows with the context it attends to."""

TOO_FEW = 32
"""Prompt tokens below which a step says nothing about the cost of one: it is mostly overhead."""


class Rates:
    """Moving ratios (seconds per unit), one for each doubling of a key; for an unknown one the next smaller counts."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}

    def observe(self, key: int, seconds: float, units: float) -> None:
        """Sums decay rather than ratios, so that a large step counts more than a small one."""
        before, of = self._sums.get(key.bit_length(), (0.0, 0.0))
        self._sums[key.bit_length()] = (KEEP * before + seconds, KEEP * of + units)

    def rate(self, key: int) -> float | None:
        """None before the first observation."""
        if not self._sums:
            return None
        wanted = key.bit_length()
        nearest = min(self._sums, key=lambda known: (known > wanted, abs(known - wanted)))
        seconds, units = self._sums[nearest]
        return seconds / units


@dataclass(frozen=True)
class Load:
    """What one step computes: decoding streams, prompt tokens, and the mean context of those (tokens)."""

    streams: int
    prompt: int
    depth: int


class StepBudget:
    """`step_tokens` is the most a step computes in all, `step_seconds` the target with running streams (0: none)."""

    def __init__(self, step_tokens: int, step_seconds: float = 0.0, floor: int = FLOOR) -> None:
        self.step_tokens = step_tokens
        self.step_seconds = step_seconds
        self.floor = floor
        self._decode = Rates()
        self._prefill = Rates()

    def prompt_tokens(self, streams: int, depth: int) -> int:
        """Prompt tokens for a step with so many streams, where they begin behind `depth` tokens. At least 1."""
        most = max(1, self.step_tokens - streams)
        each = self._prefill.rate(depth // DEPTH)
        if not (streams and self.step_seconds and each):
            return most
        decode = self._decode_seconds(streams)
        left = max(self.step_seconds, STRETCH * decode) - decode
        return most if most * each <= left else min(most, max(self.floor, int(left / each)))

    def observe(self, load: Load, seconds: float) -> None:
        """A step of this load took so long."""
        if not load.prompt:
            self._decode.observe(load.streams, seconds, 1.0)
        elif load.prompt >= TOO_FEW:
            # At least half of a mixed step is put down to its prompts, should the streams have become cheaper.
            rest = max(seconds - self._decode_seconds(load.streams), seconds / 2)
            self._prefill.observe(load.depth // DEPTH, rest, load.prompt)

    def _decode_seconds(self, streams: int) -> float:
        return (self._decode.rate(streams) or 0.0) if streams else 0.0
