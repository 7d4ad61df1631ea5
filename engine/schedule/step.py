"""What one engine step computes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.schedule.request import Request


@dataclass(frozen=True)
class Work:
    """Known tokens [start, start + count) of a request, and `drafts`: guesses at what follows the last of them."""

    request: Request
    start: int
    count: int
    drafts: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return self.count + len(self.drafts)

    @property
    def samples(self) -> bool:
        """Whether `computed` catches up with `known`, so that the next token is sampled."""
        return self.start + self.count == len(self.request.known)
