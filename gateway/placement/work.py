"""Prefill that waits at a replica: what was sent there and has no first byte yet, oldest first.

Engines begin with the oldest, so the time between two first bytes, or since work came to an idle replica, is the time
that one prompt took. Where an engine computes several side by side the times of single prompts are wrong, but
their sum is right.
"""

from __future__ import annotations


class Work:
    def __init__(self) -> None:
        self.tokens = 0
        self._waiting: dict[object, int] = {}
        self._since = 0.0

    @property
    def head_tokens(self) -> int:
        """Of the oldest."""
        return next(iter(self._waiting.values()), 0)

    def head_s(self, now: float) -> float:
        """For how long the oldest has been in work."""
        return max(0.0, now - self._since) if self._waiting else 0.0

    def begin(self, request: object, tokens: int, now: float) -> None:
        if not self._waiting:
            self._since = now
        self._waiting[request] = tokens
        self.tokens += tokens

    def end(self, request: object, now: float) -> float | None:
        """It is computed, or given up. The seconds it took; None if it did not wait any more."""
        tokens = self._waiting.pop(request, None)
        if tokens is None:
            return None
        self.tokens -= tokens
        took, self._since = now - self._since, now
        return took
