"""How a session begins: anew with a task, as the continuation of one that rests, or as a fork of one."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import asdict

from agents import profiles
from agents.events import BadSession, Kind
from agents.model import ChatModel
from agents.options import Options
from agents.profiles.base import Task
from agents.session import Session, folder_of, held, path_of
from agents.toolbox import Toolbox


async def begin(
    options: Options, prompt: str, model: ChatModel, toolbox: Toolbox, stack: ExitStack, interactive: bool = False
) -> Session:
    """A new session, held by this process until `stack` closes. Raises CannotOpen and ModelError."""
    name, context = await _model(options, model)
    chosen = options.profile
    if chosen == "auto":
        chosen = "full" if interactive else profiles.guess(name, await model.parameters())
    branching = (options.branches or 1) > 1
    task = Task(prompt, options.repo, options.tests, branching, interactive)
    opening = asdict(await profiles.by_name(chosen).open(task, toolbox))
    if options.temperature is not None:
        opening["sampling"]["temperature"] = options.temperature
    seed = options.seed
    if seed is None and branching:
        seed = secrets.randbelow(2**31)
    opening |= {"task": prompt, "model": name, "base_url": options.base_url, "profile": chosen, "context": context}
    opening |= {"seed": seed, "branches": options.branches or 1}
    session = Session.open(folder_of(options.repo), opening)
    stack.enter_context(held(session.path))
    return session


def go_on(options: Options, stack: ExitStack) -> Session | None:
    """The session that `--resume` or `--fork` names, held by this process; None where neither is given."""
    folder = folder_of(options.repo)
    if options.fork:
        session = Session.fork_at(folder, *_address(options.fork))
        stack.enter_context(held(session.path))
        return session
    if not options.resume:
        return None
    stack.enter_context(held(path_of(folder, options.resume)))
    session = Session.load(folder, options.resume)
    if session.is_part:
        parent = session.state.parent
        raise BadSession(f"{options.resume} is a part of a run: --resume {parent} goes on with the whole")
    return session


def take_up(session: Session) -> None:
    """Back to work on what is pending."""
    session.append(Kind.RESUME)


async def _model(options: Options, model: ChatModel) -> tuple[str, int | None]:
    """The model's name and its context, as far as they are known. Only a name that must be found out is worth an
    error.
    """
    if options.model and options.context:
        return options.model, options.context
    if options.model:
        listed = await model.listed(options.model)
        return options.model, options.context or (listed.context if listed else None)
    first = (await model.models())[0]
    return first.name, options.context or first.context


def _address(text: str) -> tuple[str, int | None]:
    identity, at, event = text.partition("@")
    if at and not (event.isascii() and event.isdigit() and int(event) > 0):
        raise BadSession(f"--fork {text}: give ID or ID@N, with N the number of events to keep")
    return identity, int(event) if at else None
