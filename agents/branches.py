"""Best of N with the tests as the judge: one shared prefix, N branches from its end, the first that passes
wins.

The shared turns are run once. Each branch is a child session with the same messages, its own seed and its
own worktree; all ask the model at the same time, so a radix engine computes the shared prefix once. The
losers are cancelled the moment one passes. The user's folder sees nothing but the winner's patch.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from agents.cut import cut
from agents.events import Kind
from agents.loop import Loop
from agents.prompts import prompt
from agents.session import Session
from agents.shadow import Shadow, ShadowError
from agents.state import Origin, Status
from agents.verdict import Verdict, failures_of
from agents.workplace import Furnish, Workplace

PATCH_LIMIT = 4000
"""Characters of a failed branch's changes that the next round sees."""
TOOL_PROCESSES = 2
"""Tool processes that run at a time, over all branches."""


@dataclass
class Winner:
    session: Session
    patch: str


async def rounds(
    trunk: Loop, shadow: Shadow, count: int, most: int, furnish: Furnish
) -> tuple[Winner | None, list[Session]]:
    """Race `count` branches, up to `most` times: a later round is told how far the best one of the round before got."""
    everyone: list[Session] = []
    hint: str | None = None
    for left in reversed(range(most)):
        race = Race(trunk, shadow, furnish, hint, learns=left > 0)
        winner = await race.run(count)
        everyone += race.sessions
        if winner or not race.failures or trunk.budget.exhausted(trunk.state):
            return winner, everyone
        hint = min(race.failures, key=lambda failure: (failure.failed, failure.branch)).told()
    return None, everyone


@dataclass(frozen=True)
class Failed:
    """A branch that ended with failing tests."""

    failed: int
    branch: int
    tests: str
    patch: str

    def told(self) -> str:
        patch = cut(self.patch, PATCH_LIMIT) or "(nothing was changed)"
        return prompt("second_round", patch=patch, output=self.tests)


class Race:
    """Branches that all begin where `trunk` rests, each told `hint` first.

    Only where another round `learns` from them is it worth to look at what failed.
    """

    def __init__(self, trunk: Loop, shadow: Shadow, furnish: Furnish, hint: str | None, learns: bool) -> None:
        self._trunk, self._shadow, self._furnish, self._hint = trunk, shadow, furnish, hint
        self._learns = learns
        self._winner: Winner | None = None
        self.sessions: list[Session] = []
        self.failures: list[Failed] = []

    async def run(self, count: int) -> Winner | None:
        trunk = self._trunk
        first = 1 + trunk.session.children("b")
        self.sessions = [trunk.session.fork(f"b{number}") for number in range(first, first + count)]
        try:
            async with anyio.create_task_group() as group:
                for place, session in enumerate(self.sessions):
                    seed = None if trunk.seed is None else trunk.seed + first + place
                    group.start_soon(self._branch, replace(trunk, session=session, seed=seed), group.cancel_scope)
        except ExceptionGroup as several:  # such as a full disk, under every session file at once
            raise several.exceptions[0] from None
        return self._winner

    async def _branch(self, loop: Loop, race: anyio.CancelScope) -> None:
        label = loop.state.id.rpartition(".")[2]
        place = Workplace(partial(self._shadow.worktree, label), self._furnish)
        try:
            if self._hint:
                loop.session.append(Kind.MESSAGE, message={"role": "user", "content": self._hint}, origin=Origin.TESTS)
            async with place:
                status = await replace(loop, toolbox=place).run()
            await self._judge(loop.session, status, place, race)
        except (ShadowError, OSError) as error:  # this branch is lost (disk full, git failed), the others go on
            loop.session.rest(Status.NOT_SOLVED, str(error))
        finally:
            if loop.state.status is Status.RUNNING:
                loop.session.rest(Status.CANCELLED, "another branch passed first, or the run was stopped")
            if place.tree:
                self._shadow.remove(place.tree)

    async def _judge(self, session: Session, status: Status, place: Workplace, race: anyio.CancelScope) -> None:
        if place.tree is None:
            return
        verdict = session.state.tested
        if status is Status.SOLVED:
            patch = await anyio.to_thread.run_sync(self._shadow.diff, place.tree)
            self._winner = self._winner or Winner(session, patch)
            race.cancel()
        elif self._learns and verdict and verdict["verdict"] == Verdict.FAILED:
            patch = await anyio.to_thread.run_sync(self._shadow.diff, place.tree)
            failures = len(failures_of(verdict["data"])) or sys.maxsize
            self.failures.append(Failed(failures, self.sessions.index(session), verdict["text"], patch))


def conclude(trunk: Session, winner: Winner | None, branches: list[Session], shadow: Shadow) -> None:
    """Apply the winner's patch to the folder and write how the session ended."""
    if winner is None:
        _nobody(trunk, branches)
        return
    label = winner.session.state.id.rpartition(".")[2]
    misfit = shadow.apply(winner.patch)
    if misfit is None:
        trunk.rest(Status.SOLVED, f"branch {label} passes the tests; its changes were applied")
        return
    kept: Path = winner.session.path.with_suffix(".patch")
    kept.write_text(winner.patch, encoding="utf-8", errors="surrogateescape")
    trunk.rest(Status.NOT_SOLVED, f"branch {label} passes, but its patch does not fit ({misfit}); it is in {kept}")


def _nobody(trunk: Session, branches: list[Session]) -> None:
    failed = [branch.state for branch in branches if branch.state.status is Status.MODEL_FAILED]
    if len(failed) == len(branches):
        trunk.rest(Status.MODEL_FAILED, failed[0].reason)
    elif all(branch.state.status is Status.BUDGET for branch in branches):
        trunk.rest(Status.BUDGET, f"none of {len(branches)} branches finished within its budget")
    else:
        trunk.rest(Status.NOT_SOLVED, f"none of {len(branches)} branches passes the tests; nothing was changed")
