"""Which tokens to draft for one request, and how many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

from engine.draft.config import DraftConfig
from engine.draft.grams import Match
from engine.draft.memory import DraftMemory
from engine.draft.pace import Pace
from engine.draft.suffix import SuffixIndex

# A long match is right more often than a short one, so each class has its own pace: (from match length, first rate).
CLASSES = ((0, 0.5), (8, 0.8), (16, 0.9))
_BOUNDS = [start for start, _ in CLASSES]


class Drafter:
    """Proposes drafts; the engine verifies them (see the package's docstring for the rule).

    A step: `propose`, verify, then `verified` and `append` in either order. A proposal that is not verified after
    all (the request was retracted, the grammar forbids it) needs nothing: the next one takes its place.
    """

    def __init__(
        self, memory: DraftMemory, namespace: Hashable, prompt_ids: Sequence[int], config: DraftConfig | None = None
    ) -> None:
        config = config or DraftConfig()
        self._memory = memory
        self._namespace = namespace
        self._own = SuffixIndex(prompt_ids, config)
        self._max_match = config.max_match
        self._paces = [Pace(config, rate) for _, rate in CLASSES]
        self._proposed: Pace | None = None

    def append(self, ids: Sequence[int]) -> None:
        """Tokens that now belong to the request: accepted drafts, sampled and forced ones."""
        self._own.extend(ids)

    def propose(self, limit: int) -> list[int]:
        """At most `limit` tokens that may come next; empty where no draft is expected to pay."""
        self._proposed = None
        match = self._longest()
        if match is None:
            return []
        pace = self._paces[bisect_right(_BOUNDS, match.length) - 1]
        # a draft longer than what supports it is a guess upon a guess
        count = min(limit, pace.length(len(self._own)), match.length)
        if count < 1:
            return []
        self._proposed = pace
        return match.continuation(count)

    def verified(self, drafted: int, accepted: int) -> None:
        """Of the last proposal, `drafted` tokens were verified and the first `accepted` of them were right."""
        if not 0 <= accepted <= drafted:
            raise ValueError(f"{accepted} of {drafted} drafted tokens can't have been accepted")
        if self._proposed and drafted:
            self._proposed.verified(drafted, accepted, len(self._own))
        self._proposed = None

    def _longest(self) -> Match | None:
        """The request's own text goes first where it matches as well: it is about the same thing."""
        own = self._own.match()
        if own and own.length >= self._max_match:
            return own
        other = self._memory.match(self._namespace, self._own.tail())
        if own and other:
            return max(own, other, key=lambda match: match.length)
        return own or other
