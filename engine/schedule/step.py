"""What one engine step computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.schedule.budget import Load
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
    def of_prompt(self) -> bool:
        """Whether it computes a part of the prompt; the rest of `known` was generated."""
        return self.start < len(self.request.prompt)

    @property
    def samples(self) -> bool:
        """Whether `computed` catches up with `known`, so that the next token is sampled."""
        return self.start + self.count == len(self.request.known)


def load_of(works: Sequence[Work]) -> Load:
    """One token of a request is a stream's, more are a prompt's."""
    prompts = [work for work in works if work.count > 1]
    tokens = sum(work.count for work in prompts)
    attended = sum(work.count * (work.start + work.count // 2) for work in prompts)
    return Load(len(works) - len(prompts), tokens, attended // tokens if tokens else 0)


class StepPlan:
    """A step while it is planned: its works, and the tokens that are left for streams and for prompts."""

    def __init__(self, tokens: int) -> None:
        self.works: list[Work] = []
        self.left = tokens
        self.prompt_left: int | None = None
        """None until the first prompt's depth is known."""

    def add(self, work: Work) -> None:
        self.works.append(work)
        self.left -= work.total
        if work.count > 1 and self.prompt_left is not None:
            self.prompt_left -= work.count
