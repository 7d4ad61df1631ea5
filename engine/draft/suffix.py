"""Drafts from a request's own prompt and output."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from engine.draft.config import DraftConfig
from engine.draft.grams import GramIndex, Match


class SuffixIndex:
    """Finds the longest suffix of the text that has occurred in it before.

    While the text goes on as it did after that occurrence, the occurrence is followed and nothing is searched: the
    longest match grows by at most one for each token, so the followed one remains the longest (of `max_match`).
    """

    def __init__(self, ids: Sequence[int] = (), config: DraftConfig | None = None) -> None:
        self._config = config or DraftConfig()
        self._text = GramIndex(self._config.min_match)
        self._match: Match | None = None
        self.extend(ids)

    def __len__(self) -> int:
        return self._text.end

    def append(self, token: int) -> None:
        self.extend((token,))

    def extend(self, ids: Sequence[int]) -> None:
        """Tokens that are now known, in order; never those that are only drafted."""
        new = array("i", ids)
        self._text.extend(new)
        self._match = self._follow(new)

    def match(self) -> Match | None:
        """Where the text's end has occurred before, or None."""
        if self._match is None:
            self._match = self._text.find(self.tail(), self._config.max_candidates)
        return self._match

    def propose(self, max_tokens: int) -> list[int]:
        """What followed there: exactly `max_tokens` tokens, or none without a match."""
        match = self.match()
        return match.continuation(max_tokens) if match and max_tokens > 0 else []

    def tail(self) -> array[int]:
        """As much of the text's end as a match can use."""
        return self._text.tokens[-self._config.max_match :]

    def _follow(self, new: array[int]) -> Match | None:
        """The match moved on over the tokens just added, if they went on as it does."""
        match, count = self._match, len(new)
        if match is None or self._text.tokens[match.position : match.position + count] != new:
            return None
        return Match(self._text, match.position + count, match.length + count)
