"""A session that a person talks to: say something, watch the agent until it rests, say the next thing."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from agents.account import account
from agents.events import BadSession, Kind
from agents.loop import Loop
from agents.opening import begin, go_on, take_up
from agents.options import Options
from agents.session import Session, folder_of, held
from agents.state import Origin, State, Status
from agents.toolbox import Toolbox
from agents.view import View
from agents.workshop import Workshop

STOPPED = "Stopped by the user before it ended."


class Conversation:
    """An async context manager; enter, talk and leave in one task."""

    def __init__(self, options: Options, view: View) -> None:
        self._options, self._view = options, view
        self._stack = AsyncExitStack()
        self._holding = ExitStack()
        self._session: Session | None = None

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        self._stack.callback(lambda: self._holding.close())
        self._shop = await self._stack.enter_async_context(Workshop(self._options, self._view))
        self._toolbox: Toolbox = await self._stack.enter_async_context(self._shop.tools_at(self._shop.root))
        self._session = go_on(self._options, self._holding)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    @property
    def state(self) -> State:
        """Empty until something is said."""
        return self._session.state if self._session else State()

    @property
    def context_limit(self) -> int | None:
        """Tokens, where the server tells."""
        limit: int | None = self.state.opened.get("context")
        return limit

    async def say(self, text: str) -> Status:
        """A person's words, and the agent's work on them until it rests. Cancelling stops the turn: the session then
        rests INTERRUPTED, and what a tool left undone is told to the model when the next thing is said. Raises
        ModelError where no session can even begin, and OSError where the session cannot be written.
        """
        session = self._session
        if session is None:
            session = await begin(self._options, text, self._shop.model, self._toolbox, self._holding, interactive=True)
            self._session = session
            return await self._work(session)
        for call in list(session.state.pending):
            session.append(Kind.RESULT, call=call.id, text=STOPPED, is_error=True, data=None, fault=None)
        take_up(session)
        session.append(Kind.MESSAGE, message={"role": "user", "content": text}, origin=Origin.PERSON)
        return await self._work(session)

    async def resume(self) -> Status:
        """Run what is pending: a call without a result, a turn without a reply."""
        session = self._begun()
        take_up(session)
        return await self._work(session)

    async def compact(self) -> str:
        session = self._begun()
        before = len(session.state.messages)
        await self._loop(session).compact()
        return f"{before} messages are {len(session.state.messages)} now"

    async def fork(self, event: int | None = None) -> str:
        """Go on in a fork of the session, which stays as it is; the fork's id. Raises BadSession."""
        folder = folder_of(self._options.repo)
        fork = Session.fork_at(folder, self._begun().state.id, event)
        self._holding.close()
        self._holding = ExitStack()
        self._holding.enter_context(held(fork.path))
        self._session = fork
        return fork.state.id

    async def why(self) -> list[str]:
        """What each turn reused and why not more, a line each."""
        state = self.state
        return account(state, await self._shop.cache.session(state.lineage)) if self._session else []

    async def models(self) -> list[str]:
        return [listed.name for listed in await self._shop.model.models()]

    def use_model(self, name: str) -> None:
        if self._session:
            self._session.append(Kind.MODEL, model=name)
        else:
            self._options = replace(self._options, model=name)

    async def _work(self, session: Session) -> Status:
        loop = self._loop(session)
        try:
            with loop.budget.scope() as scope:
                status = await loop.run()
            if scope.cancelled_caught:
                session.rest(Status.BUDGET, "the time is used up")
                return Status.BUDGET
            return status
        except BaseException:
            if session.state.status is Status.RUNNING:
                session.rest(Status.INTERRUPTED, "stopped")
            raise

    def _loop(self, session: Session) -> Loop:
        return self._shop.loop(session, self._toolbox, self._shop.budget())

    def _begun(self) -> Session:
        if self._session is None:
            raise BadSession("nothing was said yet")
        return self._session
