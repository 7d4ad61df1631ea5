"""One run of `sapwood code`, put together: session, model, tools, profile, and branches where asked for."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import anyio

from agents import branches, profiles
from agents.events import BadSession, Kind
from agents.loop import Loop
from agents.model import ChatModel, ModelError
from agents.profiles.base import CannotOpen, Task
from agents.report import Report, report
from agents.session import Session, folder_of, held, path_of
from agents.shadow import Shadow, ShadowError
from agents.state import Status
from agents.toolbox import Toolbox, open_toolbox
from agents.view import View


@dataclass(frozen=True)
class Options:
    """What the command line said; None where it said nothing."""

    repo: Path
    base_url: str
    prompt: str | None = None
    model: str | None = None
    api_key: str | None = None
    branches: int | None = None
    tests: str | None = None
    max_turns: int = 50
    temperature: float | None = None
    seed: int | None = None
    resume: str | None = None
    profile: str = "auto"
    keep: bool = False


async def solve(options: Options, view: View) -> Report:
    """Run to the end. Raises BadSession and ShadowError for what cannot even begin; everything else is a
    report.
    """
    async with ChatModel(options.base_url, options.api_key) as model:
        try:
            ended = await _run(options, view, model)
        except ModelError as error:
            ended = Report(Status.MODEL_FAILED, str(error))
        except CannotOpen as closed:
            ended = Report(closed.status, str(closed))
    view.finish(ended)
    return ended


async def _run(options: Options, view: View, model: ChatModel) -> Report:
    async with AsyncExitStack() as stack:
        session = _load(stack, options) if options.resume else None
        if session and session.state.status is Status.SOLVED:
            return report(session)
        count = _branch_count(options, session)
        slots = anyio.CapacityLimiter(branches.TOOL_PROCESSES)
        shadow = _shadow(stack, options, view, needed=count > 1)
        root = shadow.worktree("trunk") if shadow and count > 1 else options.repo
        toolbox = await stack.enter_async_context(open_toolbox(root, slots, repo=options.repo.resolve()))
        session = session or await _open(options, model, toolbox, branching=count > 1)
        view.note(f"session {session.state.id}, model {session.state.opened['model']}")
        if options.resume:
            session.append(Kind.RESUME)
        else:
            stack.enter_context(held(session.path))
        profile = profiles.by_name(session.state.opened["profile"])
        seed = session.state.opened["seed"]
        loop = Loop(session, model, toolbox, profile, view, options.max_turns, seed)
        try:
            return await _finish(loop, shadow, count, slots, options)
        except BaseException:
            if session.state.status is Status.RUNNING:
                session.rest(Status.INTERRUPTED, f"--resume {session.state.id} goes on")
            view.finish(report(session))
            raise


async def _finish(
    loop: Loop, shadow: Shadow | None, count: int, slots: anyio.CapacityLimiter, options: Options
) -> Report:
    status = await loop.run()
    if status is not Status.RUNNING or shadow is None:
        ended = report(loop.session)
        # Only an agent that works in the folder itself has changed it.
        diff = shadow.diff(options.repo.resolve()) if shadow and count == 1 else ""
        return replace(ended, diff=diff)
    winner, sessions = await branches.race(loop, shadow, count, slots)
    branches.conclude(loop.session, winner, sessions, shadow)
    ended = report(loop.session, sessions)
    if winner:
        won = report(winner.session)
        ended = replace(ended, winner=winner.session.state.id, diff=winner.patch, tests=won.tests)
    return ended


def _load(stack: AsyncExitStack, options: Options) -> Session:
    assert options.resume
    folder = folder_of(options.repo)
    stack.enter_context(held(path_of(folder, options.resume)))
    session = Session.load(folder, options.resume)
    if session.state.parent:
        parent = session.state.parent
        raise BadSession(f"{options.resume} is a branch: --resume {parent} tries new branches from the same point")
    return session


def _branch_count(options: Options, session: Session | None) -> int:
    asked = options.branches or 1
    if session is None:
        return asked
    stored: int = session.state.opened["branches"]
    if (stored > 1) != ((options.branches or stored) > 1):
        raise BadSession(f"session {session.state.id} was begun with --branches {stored}: this cannot be changed now")
    return options.branches or stored


def _shadow(stack: AsyncExitStack, options: Options, view: View, needed: bool) -> Shadow | None:
    try:
        return stack.enter_context(Shadow(options.repo, options.keep))
    except ShadowError as error:
        if needed:
            raise
        view.note(f"no diff at the end: {error}")
        return None


async def _open(options: Options, model: ChatModel, toolbox: Toolbox, branching: bool) -> Session:
    name = options.model or await model.first_model()
    chosen = options.profile
    if chosen == "auto":
        chosen = profiles.guess(name, await model.parameters())
    task = Task(options.prompt or "", options.repo, options.tests, branching)
    opening = asdict(await profiles.by_name(chosen).open(task, toolbox))
    if options.temperature is not None:
        opening["sampling"]["temperature"] = options.temperature
    seed = options.seed
    if seed is None and branching:
        seed = secrets.randbelow(2**31)
    opening |= {"task": options.prompt, "model": name, "base_url": options.base_url, "profile": chosen}
    opening |= {"seed": seed, "branches": options.branches or 1}
    return Session.open(folder_of(options.repo), opening)
