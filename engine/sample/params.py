"""How one request is sampled."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.errors import RequestError
from engine.sample.noise import mix

MAX_LOGPROBS = 20


@dataclass(frozen=True)
class SamplingParams:
    """The fields are those of the OpenAI API and its common extensions; the defaults change nothing.

    Temperature 0 is greedy. `top_k` 0 and `top_p` 1 keep every token. The cuts are made in the order top-k, top-p (over
    what is left), min-p. `logprobs` is the number of alternatives to report, None for no log-probabilities at all.
    Raises RequestError for a value out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    min_tokens: int = 0
    ends: frozenset[int] = frozenset()
    """Tokens that are not chosen before there are `min_tokens`, unless a grammar leaves no other."""

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0, 100)
        _within("top_k", self.top_k, 0, math.inf)
        _within("top_p", self.top_p, 0, 1)
        _within("min_p", self.min_p, 0, 1)
        _within("presence_penalty", self.presence_penalty, -2, 2)
        _within("frequency_penalty", self.frequency_penalty, -2, 2)
        _within("repetition_penalty", self.repetition_penalty, 0.01, 100)
        for bias in self.logit_bias.values():
            _within("logit_bias", bias, -100, 100)
        if self.logprobs is not None:
            _within("logprobs", self.logprobs, 0, MAX_LOGPROBS)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken, without any noise."""
        return self.temperature < 1e-5 or self.top_k == 1

    @property
    def reshapes(self) -> bool:
        """Whether logits are changed before the temperature."""
        return bool(
            self.logit_bias or self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0
        )

    @property
    def cuts(self) -> bool:
        """Whether unlikely tokens are left out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    def for_choice(self, index: int) -> SamplingParams:
        """The parameters of choice `index` of a request: the same seed gives each choice a noise of its own."""
        if self.seed is None:
            return replace(self, seed=secrets.randbits(63))
        return replace(self, seed=mix(self.seed, index) if index else self.seed)


def _within(param: str, value: float, low: float, high: float) -> None:
    if not (isinstance(value, int | float) and low <= value <= high):
        bounds = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise RequestError(f"{param} must be {bounds}, not {value!r:.40}", code="invalid_value", param=param)
