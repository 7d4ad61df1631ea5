"""One run of `sapwood code` from a task to a report: session, tools, and branches where asked for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from agents import branches
from agents.budget import LATE, Budget
from agents.events import BadSession
from agents.loop import Loop
from agents.model import ModelError
from agents.opening import begin, go_on, take_up
from agents.options import Options
from agents.profiles.base import CannotOpen
from agents.report import Report, report
from agents.session import Session
from agents.shadow import Shadow, ShadowError
from agents.state import Status
from agents.view import View
from agents.workshop import Workshop


async def solve(options: Options, view: View) -> Report:
    """Run to the end. Raises BadSession and ShadowError for what cannot even begin; everything else is a
    report.
    """
    async with Workshop(options, view) as shop:
        try:
            ended = await _run(options, view, shop)
        except ModelError as error:
            ended = Report(Status.MODEL_FAILED, str(error))
        except CannotOpen as closed:
            ended = Report(closed.status, str(closed))
    view.finish(ended)
    return ended


async def _run(options: Options, view: View, shop: Workshop) -> Report:
    with ExitStack() as stack:
        session = go_on(options, stack)
        if session and session.state.status is Status.SOLVED:
            return report(session)
        count = _branch_count(options, session)
        shadow = _shadow(stack, options, view, needed=count > 1 or options.spawn > 0)
        root = shadow.worktree("trunk") if shadow and count > 1 else shop.root
        budget = shop.budget()
        with budget.scope() as scope:
            async with shop.desk(root, shadow) as toolbox:
                if session is None:
                    session = await begin(options, options.prompt or "", shop.model, toolbox, stack)
                else:
                    take_up(session)
                view.note(f"session {session.state.id}, model {session.state.model}")
                try:
                    return await _finish(shop.loop(session, toolbox, budget), shadow, count, shop)
                except BaseException:
                    _stopped(session, budget)
                    if not scope.cancel_called:
                        view.finish(report(session))
                    raise
        return report(session) if session else Report(Status.BUDGET, LATE)


def _stopped(session: Session, budget: Budget) -> None:
    if session.state.status is Status.RUNNING:
        why = (Status.BUDGET, f"{LATE}: ") if budget.late() else (Status.INTERRUPTED, "")
        session.rest(why[0], f"{why[1]}--resume {session.state.id} goes on")


async def _finish(loop: Loop, shadow: Shadow | None, count: int, shop: Workshop) -> Report:
    status = await loop.run()
    if status is not Status.RUNNING or shadow is None:
        ended = report(loop.session, shop.children)
        # Only an agent that works in the folder itself has changed it.
        diff = shadow.diff(shop.root) if shadow and count == 1 else ""
        return replace(ended, diff=diff)
    winner, sessions = await branches.rounds(loop, shadow, count, shop.options.rounds, shop.tools_at)
    branches.conclude(loop.session, winner, sessions, shadow)
    ended = report(loop.session, sessions)
    if winner:
        won = report(winner.session)
        ended = replace(ended, winner=winner.session.state.id, diff=winner.patch, tests=won.tests)
    return ended


def _branch_count(options: Options, session: Session | None) -> int:
    asked = options.branches or 1
    if session is None:
        return asked
    stored: int = session.state.opened["branches"]
    if (stored > 1) != ((options.branches or stored) > 1):
        raise BadSession(f"session {session.state.id} was begun with --branches {stored}: this cannot be changed now")
    return options.branches or stored


def _shadow(stack: ExitStack, options: Options, view: View, needed: bool) -> Shadow | None:
    try:
        return stack.enter_context(Shadow(options.repo, options.keep))
    except ShadowError as error:
        if needed:
            raise
        view.note(f"no diff at the end: {error}")
        return None
