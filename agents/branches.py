"""Best of N with the tests as the judge: one shared prefix, N branches from its end, the first that passes
wins.

The shared turns are run once. Each branch is a child session with the same messages, its own seed and its
own worktree; all ask the model at the same time, so a radix engine computes the shared prefix once. The
losers are cancelled the moment one passes. The user's folder sees nothing but the winner's patch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from agents.loop import Loop
from agents.session import Session
from agents.shadow import Shadow, ShadowError
from agents.state import Status
from agents.workplace import Workplace

TOOL_PROCESSES = 2
"""Tool processes that run at a time, over all branches."""


@dataclass
class Winner:
    session: Session
    patch: str


async def race(
    trunk: Loop, shadow: Shadow, count: int, slots: anyio.CapacityLimiter
) -> tuple[Winner | None, list[Session]]:
    """Fork `trunk` into `count` branches and run them; the winner (if any) and every branch's session."""
    first = 1 + _forks_so_far(trunk.session)
    sessions = [trunk.session.fork(f"b{number}") for number in range(first, first + count)]
    winners: list[Winner] = []
    try:
        async with anyio.create_task_group() as group:
            for place, session in enumerate(sessions):
                seed = None if trunk.seed is None else trunk.seed + first + place
                loop = replace(trunk, session=session, seed=seed)

                def won(patch: str, session: Session = session) -> None:
                    if not winners:
                        winners.append(Winner(session, patch))
                    group.cancel_scope.cancel()

                group.start_soon(partial(_branch, loop, shadow, slots, won))
    except ExceptionGroup as several:  # such as a full disk, under every session file at once
        raise several.exceptions[0] from None
    return (winners[0] if winners else None), sessions


async def _branch(loop: Loop, shadow: Shadow, slots: anyio.CapacityLimiter, won: Callable[[str], None]) -> None:
    label = loop.state.id.rpartition(".")[2]
    place = Workplace(partial(shadow.worktree, label), slots, shadow.folder)
    try:
        async with place:
            status = await replace(loop, toolbox=place).run()
        if status is Status.SOLVED and place.tree:
            won(await anyio.to_thread.run_sync(shadow.diff, place.tree))
    except (ShadowError, OSError) as error:  # this branch is lost (disk full, git failed), the others go on
        loop.session.rest(Status.NOT_SOLVED, str(error))
    finally:
        if loop.state.status is Status.RUNNING:
            loop.session.rest(Status.CANCELLED, "another branch passed first, or the run was stopped")
        if place.tree:
            shadow.remove(place.tree)


def _forks_so_far(session: Session) -> int:
    """Branches of earlier runs of this session: a resumed session forks anew, with new names and seeds."""
    return len(list(session.path.parent.glob(f"{session.path.stem}.b*.jsonl")))


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
