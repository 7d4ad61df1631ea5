"""A request that must be so long: no stop id ends it before."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from engine.sample.params import SamplingParams
from engine.schedule.request import Request

AGAINST = -100.0
"""The bias against a stop id. Not infinite: where a grammar allows nothing else, the request ends all the same."""


class LongRequest(Request):
    """Until `min_tokens` are generated its stop ids are biased against.

    Nothing is drafted meanwhile: all rows of a step are sampled by the same parameters, and with drafts some of them
    would lie beyond the bound.
    """

    min_tokens = 0

    @property
    def sampling(self) -> SamplingParams:
        return self._open if self._too_short else self._ordinary

    @sampling.setter
    def sampling(self, params: SamplingParams) -> None:
        self._ordinary = params

    @property
    def draftable(self) -> bool:
        return not self._too_short

    @property
    def _too_short(self) -> bool:
        return self.generated < self.min_tokens

    @cached_property
    def _open(self) -> SamplingParams:
        biases = {**self._ordinary.logit_bias, **dict.fromkeys(self.stop_ids, AGAINST)}
        return replace(self._ordinary, logit_bias=biases)
