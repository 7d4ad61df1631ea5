"""Sub-agents: the model hands parts of its task to children that work side by side.

A child has the identical system prompt, tools and history, up to before the reply that spawned it, so all of them share
its prefix in the engine; its own task is one more user message. It works in a worktree of the folder as it is now.
When all are done, each one's changes are merged into the folder in their order; what does not fit is left out and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from agents.cut import cut
from agents.events import Kind
from agents.loop import Loop
from agents.profiles.base import Profile, Rest, Step
from agents.prompts import prompt
from agents.session import Session
from agents.shadow import Shadow, ShadowError
from agents.state import Origin, State, Status
from agents.toolbox import Toolbox, ToolResult
from agents.workplace import Furnish, Workplace

NAME = "spawn"
MOST_TASKS = 8
SUMMARY_LIMIT = 2000
"""Characters of a child's last words that its parent reads."""
SPEC: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Let sub-agents do parts of the task side by side, each in its own copy of the files. They know "
        "this conversation. Give parts that do not touch the same files. Their changes are merged when all are done.",
        "parameters": {
            "type": "object",
            "properties": {
                "tasks": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_TASKS}
            },
            "required": ["tasks"],
        },
    },
}


class SubAgent:
    """Works like `profile`, but its answer is the end: the whole's tests are its parent's affair."""

    name = "sub-agent"

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    async def open(self, *_: Any) -> Any:
        raise AssertionError("a sub-agent goes on from its parent's session")

    def next(self, state: State) -> Step:
        answered = state.messages[-1]["role"] == "assistant" and state.finish_reason != "length"
        return Rest(Status.ANSWERED, "done") if answered else self._profile.next(state)


@dataclass
class Child:
    session: Session
    patch: str = ""
    trouble: str = ""

    def told(self, merged: str | None) -> str:
        state = self.session.state
        said = str(state.messages[-1].get("content") or "") if state.status is Status.ANSWERED else state.reason
        fate = self.trouble or merged or ("its changes are in the files now" if self.patch else "it changed nothing")
        return f"{state.id.rpartition('.')[2]} ({state.status.value}; {fate}): {cut(said, SUMMARY_LIMIT)}"


class Spawning:
    """A `Toolbox` with `spawn` on top of `inner`. `loop` is whose calls these are, `place` the folder they work in."""

    def __init__(self, inner: Toolbox, place: Path, shadow: Shadow, furnish: Furnish, most: int) -> None:
        self._inner, self._place, self._shadow, self._furnish = inner, place, shadow, furnish
        self._left = most
        self.loop: Loop | None = None
        """Set when the session has begun."""
        self.children: list[Session] = []

    def specs(self) -> list[dict[str, Any]]:
        return sorted([*self._inner.specs(), SPEC], key=lambda spec: str(spec["function"]["name"]))

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if name != NAME:
            return await self._inner.call(name, arguments)
        tasks = arguments.get("tasks")
        if (
            not isinstance(tasks, list)
            or not tasks
            or not all(isinstance(task, str) and task.strip() for task in tasks)
        ):
            return ToolResult("`tasks` must be a list of texts, one for each sub-agent. Nothing was run.", True)
        if len(tasks) > min(self._left, MOST_TASKS):
            return ToolResult(f"At most {min(self._left, MOST_TASKS)} more sub-agents can be spawned.", True)
        self._left -= len(tasks)
        try:
            return await self._run(tasks)
        except (ShadowError, OSError) as error:
            return ToolResult(f"The sub-agents could not work: {error}", True)

    async def _run(self, tasks: Sequence[str]) -> ToolResult:
        assert self.loop
        now = await anyio.to_thread.run_sync(self._shadow.snapshot, self._place)
        children = [self._child(self.loop.session, task) for task in tasks]
        async with anyio.create_task_group() as group:
            for child in children:
                group.start_soon(self._work, child, now)
        lines = [child.told(await self._merge(child)) for child in children]
        return ToolResult("\n\n".join(lines), data={"children": [child.session.state.id for child in children]})

    def _child(self, parent: Session, task: str) -> Child:
        session = parent.fork_before_reply(f"s{parent.children('s') + 1}")
        session.append(
            Kind.MESSAGE,
            message={"role": "user", "content": prompt("sub_agent", task=task)},
            origin=Origin.PERSON,
        )
        self.children.append(session)
        return Child(session)

    async def _work(self, child: Child, commit: str) -> None:
        assert self.loop
        label = child.session.state.id.rpartition(".")[2]
        place = Workplace(partial(self._shadow.worktree, label, commit), self._furnish)
        loop = replace(self.loop, session=child.session, profile=SubAgent(self.loop.profile))
        try:
            async with place:
                await replace(loop, toolbox=Childless(place)).run()
            if place.tree:
                child.patch = await anyio.to_thread.run_sync(self._shadow.diff, place.tree, commit)
        except (ShadowError, OSError) as error:
            child.trouble = f"it could not work: {error}"
        finally:
            if child.session.state.status is Status.RUNNING:
                child.session.rest(Status.CANCELLED, "the run was stopped")
            if place.tree:
                self._shadow.remove(place.tree)

    async def _merge(self, child: Child) -> str | None:
        """Why the child's changes are not in the folder, if so."""
        if not child.patch:
            return None
        misfit = await anyio.to_thread.run_sync(self._shadow.apply, child.patch, self._place)
        return f"its changes did not fit and were left out: {misfit}" if misfit else None


class Childless:
    """The tools of a sub-agent: the same for the model, but it has no children of its own."""

    def __init__(self, inner: Toolbox) -> None:
        self._inner = inner

    def specs(self) -> list[dict[str, Any]]:
        return self._inner.specs()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if name == NAME:
            return ToolResult("A sub-agent cannot spawn others: do it yourself.", True)
        return await self._inner.call(name, arguments)
