"""The agent loop: query, execute, append.

Everything it does follows from the session's state, so running, resuming and branching are one path: run
what is pending. It never edits what was sent, never runs a call of a reply that was cut off, and never asks
for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import compaction
from agents.budget import Budget
from agents.cut import cut
from agents.events import Kind
from agents.execute import execute
from agents.gate import Gate, Open
from agents.hold import Hold, NoHold
from agents.model import Dropped, Model, ModelError, Refused
from agents.profiles.base import Ask, Fork, Profile, Rest, Say, Step, Verify
from agents.prompts import prompt
from agents.session import Session
from agents.state import Call, Origin, State, Status
from agents.stuck import circle
from agents.toolbox import Toolbox
from agents.verdict import judge
from agents.view import View

MAX_FAULTS = 3
"""Calls in a row that could not be run before the session stops."""
MAX_NUDGES = 2
"""Circles that are broken before the session stops."""


@dataclass(frozen=True)
class Compact:
    """Replace the history by a summary of it."""


@dataclass
class Loop:
    session: Session
    model: Model
    toolbox: Toolbox
    profile: Profile
    view: View
    budget: Budget = field(default_factory=Budget)
    gate: Gate = field(default_factory=Open)
    hold: Hold = field(default_factory=NoHold)
    news: Sequence[str] = ()
    """What happened outside since the run began; it only grows. Said to the model as it comes."""
    seed: int | None = None
    told: int = 0

    async def run(self) -> Status:
        """Until the session comes to rest; RUNNING when the profile wants to branch here."""
        try:
            while (step := self._next()) is not None:
                await self._take(step)
        except ModelError as error:
            self._failed(error)
        if self.state.status is not Status.RUNNING:
            await self.hold.release(self.state.lineage)
        return self.state.status

    @property
    def state(self) -> State:
        return self.session.state

    def _next(self) -> Step | Call | Compact | None:
        state = self.state
        if state.status is not Status.RUNNING:
            return None
        if state.pending:
            return state.pending[0]
        if state.faults >= MAX_FAULTS:
            return Rest(Status.NOT_SOLVED, f"{state.faults} unusable replies in a row: {_last_text(state)}")
        if state.messages[-1]["role"] == "tool" and (repeated := circle(state)):
            return _against(repeated, state)
        if new := self.news[self.told :]:
            self.told += len(new)
            return Say("\n".join(new), Origin.NEWS)
        step = self.profile.next(state)
        if isinstance(step, Fork):
            return None
        return self._affordable(step) if isinstance(step, Ask) else step

    def _affordable(self, step: Ask) -> Step | Compact:
        if why := self.budget.exhausted(self.state):
            return Rest(Status.BUDGET, f"{why}: --resume {self.state.id} goes on")
        return Compact() if compaction.due(self.state) else step

    async def _take(self, step: Step | Call | Compact) -> None:
        match step:
            case Call():
                await self._execute(step)
            case Ask():
                await self._ask(step)
            case Compact():
                await self.compact()
            case Say(text, origin):
                self.session.append(Kind.MESSAGE, message={"role": "user", "content": text}, origin=origin)
            case Verify():
                await self._verify()
            case Rest(status, reason):
                self.session.rest(status, reason)

    async def _ask(self, step: Ask) -> None:
        state = self.state
        number = len(state.turns) + 1
        choice = {"type": "function", "function": {"name": step.tool}} if step.tool else "auto"
        self.session.append(Kind.ASK, turn=number, tool_choice=choice, seed=self.seed)
        request = self._request(state.messages, choice)
        reply = await self.model.complete(
            request, state.lineage, number, lambda delta: self.view.delta(state.id, delta)
        )
        self.session.append(Kind.REPLY, message=reply.message, finish_reason=reply.finish_reason, cost=reply.cost)
        self._spent()

    async def compact(self) -> None:
        """Ask for a summary behind the whole history, which costs the history's cached prefix nothing; then go on
        from the beginning and that summary.
        """
        state = self.state
        question = [*state.messages, {"role": "user", "content": prompt("compact_ask")}]
        number = len(state.turns) + 1
        reply = await self.model.complete(self._request(question, "none"), state.lineage, number)
        summary = str(reply.message.get("content") or "").strip()
        if not summary:
            self.session.rest(Status.BUDGET, "the model's context is nearly full, and it wrote no summary")
            return
        said = {"role": "assistant", "content": summary}, {"role": "user", "content": prompt("compact_go_on")}
        self.session.append(Kind.COMPACT, messages=said, cost=reply.cost)
        self._spent()
        self.view.note("the conversation was summarised to make room")

    def _spent(self) -> None:
        turn = self.state.turns[-1]
        self.budget.spend(turn)
        self.view.turn(self.state.id, turn)

    def _request(self, messages: list[dict[str, Any]], choice: Any) -> dict[str, Any]:
        opened = self.state.opened
        request: dict[str, Any] = {"model": self.state.model, "messages": messages}
        if opened["tools"]:
            request |= {"tools": opened["tools"], "tool_choice": choice}
        request |= opened["sampling"]
        return request if self.seed is None else request | {"seed": self.seed}

    async def _execute(self, call: Call) -> None:
        await execute(call, self.session, self.toolbox, self.gate, self.hold, self.view)

    async def _verify(self) -> None:
        tests = self.state.opened["tests"]
        result = await self.toolbox.call(tests["tool"], tests["arguments"])
        verdict = judge(result)
        text = cut(result.text, self.state.opened["output_limit"])
        self.session.append(Kind.VERIFY, verdict=verdict, text=text, data=result.data)
        self.view.verdict(self.state.id, verdict)

    def _failed(self, error: ModelError) -> None:
        self.session.append(Kind.FAIL, error=type(error).__name__, text=str(error), partial=error.partial)
        full = isinstance(error, Refused) and error.code == "context_length_exceeded"
        status = Status.BUDGET if full else Status.MODEL_FAILED
        hint = f"; --resume {self.state.id} asks again" if isinstance(error, Dropped) else ""
        self.session.rest(status, f"{error}{hint}")


def _against(repeated: str, state: State) -> Say | Rest:
    if state.nudges >= MAX_NUDGES:
        return Rest(Status.NOT_SOLVED, f"the model goes round in circles: {repeated}")
    return Say(prompt("circle", repeated=repeated), Origin.NUDGE)


def _last_text(state: State) -> str:
    return " ".join(str(state.messages[-1].get("content") or "").split())[:200]
