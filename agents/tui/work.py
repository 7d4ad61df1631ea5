"""What was typed is done here, in order and one thing at a time: words to the model, and commands that change the
session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import anyio

from agents.events import BadSession
from agents.model import ModelError
from agents.profiles.base import CannotOpen
from agents.shadow import ShadowError
from agents.state import Status
from agents.tui.blocks import Block, Notice, Said
from agents.tui.commands import Command, parse
from agents.tui.footer import Activity
from agents.tui.ink import Ink, clean_line
from agents.tui.obey import obey
from agents.tui.ports import Talk
from agents.tui.stage import Stage

GO_ON = ""
"""What an empty line stands for."""
RESUMABLE = frozenset({Status.MODEL_FAILED, Status.INTERRUPTED, Status.BUDGET, Status.WAITING})
_GIVES_BACK = frozenset({Status.MODEL_FAILED, Status.INTERRUPTED})
"""After these nobody wants the next message sent at once."""
_ENDS = {
    Status.SOLVED: ("Done, and the tests pass.", Ink.GOOD),
    Status.UNVERIFIED: ("Done; there was no test to agree.", Ink.WARN),
}
_EXPECTED = (BadSession, CannotOpen, ModelError, ShadowError, OSError)


class Work:
    """`changed` is called when there is something new to see, `give_back` gets what will not be sent after all."""

    def __init__(
        self, stage: Stage, changed: Callable[[], None], give_back: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self.talk: Talk
        self.waiting: deque[str] = deque()
        self._stage, self._changed, self._give_back, self._clock = stage, changed, give_back, clock
        self._activity = Activity.READY
        self._since = 0.0
        self._scope = anyio.CancelScope()

    @property
    def activity(self) -> Activity:
        return self._activity

    @property
    def seconds(self) -> int:
        return int(self._clock() - self._since)

    @property
    def is_busy(self) -> bool:
        return self._activity in (Activity.WORKING, Activity.ASKING, Activity.STOPPING)

    @property
    def can_go_on(self) -> bool:
        """The session stopped in the middle."""
        state = self.talk.state
        return state.status in RESUMABLE or (state.status is Status.RUNNING and bool(state.opened))

    def add(self, text: str) -> bool:
        """Do it when its turn comes. True: nothing is being done, so `run` is to be called."""
        self.waiting.append(text)
        is_first = not self.is_busy
        if is_first:
            self._scope, self._since = anyio.CancelScope(), self._clock()
            self._become(Activity.WORKING)
        self._changed()
        return is_first

    async def run(self) -> None:
        """Until nothing waits."""
        while self.waiting:
            text = self.waiting.popleft()
            self._changed()
            ended = await self._do(text)
            self._stage.rest()
            if ended in _GIVES_BACK and self.waiting:
                self._give_back("\n".join(text for text in self.waiting if text))
                self.waiting.clear()
            self._scope = anyio.CancelScope()
            rests = Activity.STOPPED if ended in RESUMABLE else Activity.READY
            self._become(Activity.WORKING if self.waiting else rests)

    def stop(self) -> None:
        """Break off what is being done."""
        self._become(Activity.STOPPING)
        self._scope.cancel()

    def asking(self, is_asking: bool) -> None:
        """A person is asked, or has answered."""
        if self._activity is not Activity.STOPPING:
            self._become(Activity.ASKING if is_asking else Activity.WORKING)

    async def answer(self, command: Command) -> None:
        self._stage.insert(Notice(f"{command.name} {command.argument}".rstrip(), Ink.STRONG))
        try:
            blocks: Sequence[Block] = await obey(command, self.talk)
        except Exception as error:
            blocks = [_trouble(error)]
        for block in blocks:
            self._stage.insert(block)
        self._changed()

    async def _do(self, text: str) -> Status:
        """How it ended."""
        with self._scope:
            try:
                return self._told(await self._say(text))
            except Exception as error:
                self._stage.insert(_trouble(error))
                return Status.MODEL_FAILED
        self._stage.insert(Notice("Stopped. Say what to do instead, or Enter goes on where it stopped.", Ink.WARN))
        return Status.INTERRUPTED

    async def _say(self, text: str) -> Status:
        command = parse(text)
        if isinstance(command, Command):
            await self.answer(command)
            return Status.ANSWERED
        if text == GO_ON:
            return await self.talk.resume()
        self._stage.insert(Said(text))
        return await self.talk.say(text)

    def _told(self, status: Status) -> Status:
        if status in _ENDS:
            self._stage.insert(Notice(*_ENDS[status]))
        elif status is not Status.ANSWERED:
            reason = clean_line(self.talk.state.reason) or status.value.replace("_", " ")
            hint = " Enter goes on." if status in RESUMABLE else ""
            self._stage.insert(Notice(f"{reason.rstrip('.')}.{hint}", Ink.BAD))
        return status

    def _become(self, activity: Activity) -> None:
        self._activity = activity
        self._changed()


def _trouble(error: Exception) -> Notice:
    told = clean_line(str(error)) or type(error).__name__
    return Notice(
        told if isinstance(error, _EXPECTED) else f"A defect of Sapwood: {type(error).__name__}: {told}", Ink.BAD
    )
