"""One session and its branches, read and added up: what `show` prints and the page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice

from agents.events import BadSession
from agents.export.library import Library, Recorded, fold
from agents.export.story import Item, status_word, tell, tone_of
from agents.export.totals import Shares, Totals, own, shares, totals
from agents.state import State, Turn

TITLE = 160
"""Characters."""


@dataclass(frozen=True)
class Summary:
    recorded: Recorded
    state: State
    items: list[Item]
    """From its first event on; a branch in `branches` begins at its fork."""
    branches: list[Summary] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Why branches are missing here."""

    @property
    def label(self) -> str:
        """The branch's label; `main` for a session that is nobody's branch."""
        return self.recorded.id.partition(".")[2] or "main"

    @property
    def status(self) -> str:
        return status_word(self.state.status)

    @property
    def tone(self) -> str:
        return tone_of(self.state.status)

    @property
    def task(self) -> str:
        return str(self.state.opened.get("task") or "")

    @property
    def title(self) -> str:
        """The task in a line."""
        first = next((line for line in self.task.splitlines() if line.strip()), self.recorded.id).strip()
        return first if len(first) <= TITLE else f"{first[: TITLE - 1]}…"

    @property
    def began(self) -> float:
        return self.recorded.events[0].at

    @property
    def ended(self) -> float:
        """When the last thing happened, in it or in a branch of it."""
        return max(self.recorded.events[-1].at, *(branch.ended for branch in self.branches), self.began)

    @cached_property
    def turns(self) -> list[Turn]:
        """Its own; those of the parent are told there."""
        return own(self.state.turns)

    @cached_property
    def totals(self) -> Totals:
        """Over the session and its branches, each turn once."""
        return totals([*self.turns, *(turn for branch in self.branches for turn in branch.turns)])

    @cached_property
    def shares(self) -> Shares:
        return shares(self.state.turns)


def summarise(library: Library, name: str) -> Summary:
    """A session with all its branches. Raises BadSession for its own file; a branch that can't be read is named."""
    branches, unread = [], []
    for branch in library.branches(name):
        try:
            recorded = library.read(branch)
            branches.append(_summary(recorded, recorded.shared + 1))
        except BadSession as error:
            unread.append(str(error))
    return replace(_summary(library.read(name), 0), branches=branches, unread=unread)


def _summary(recorded: Recorded, skip: int) -> Summary:
    """`skip`: events at the beginning that are told elsewhere."""
    folded = fold(recorded)
    first = next(folded)
    items = tell(islice(chain((first,), folded), skip, None))
    return Summary(recorded, first[1], items)
