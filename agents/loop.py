"""The agent loop: query, execute, append.

Everything it does follows from the session's state, so running, resuming and branching are one path: run
what is pending. It never edits what was sent, never runs a call of a reply that was cut off, and never asks
for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agents.cut import cut
from agents.events import Kind
from agents.model import Dropped, Model, ModelError, Refused
from agents.profiles.base import Ask, Fork, Profile, Rest, Say, Step, Verify
from agents.session import Session
from agents.state import Call, State, Status
from agents.toolbox import Fault, Toolbox, ToolResult
from agents.verdict import judge
from agents.view import View

MAX_FAULTS = 3
"""Calls in a row that could not be run before the session stops."""


@dataclass
class Loop:
    session: Session
    model: Model
    toolbox: Toolbox
    profile: Profile
    view: View
    max_turns: int = 50
    seed: int | None = None

    async def run(self) -> Status:
        """Until the session comes to rest; RUNNING when the profile wants to branch here."""
        try:
            while (step := self._next()) is not None:
                await self._take(step)
        except ModelError as error:
            self._failed(error)
        return self.state.status

    @property
    def state(self) -> State:
        return self.session.state

    def _next(self) -> Step | Call | None:
        state = self.state
        if state.status is not Status.RUNNING:
            return None
        if state.pending:
            return state.pending[0]
        if state.faults >= MAX_FAULTS:
            return Rest(Status.NOT_SOLVED, f"{state.faults} unusable replies in a row: {_last_text(state)}")
        step = self.profile.next(state)
        if isinstance(step, Fork):
            return None
        if isinstance(step, Ask) and state.turns_used >= self.max_turns:
            return Rest(Status.BUDGET, f"{self.max_turns} turns were not enough: --resume {state.id} goes on")
        return step

    async def _take(self, step: Step | Call) -> None:
        match step:
            case Call():
                await self._execute(step)
            case Ask():
                await self._ask(step)
            case Say(text):
                self.session.append(Kind.MESSAGE, message={"role": "user", "content": text})
            case Verify():
                await self._verify()
            case Rest(status, reason):
                self.session.rest(status, reason)

    async def _ask(self, step: Ask) -> None:
        state = self.state
        choice = {"type": "function", "function": {"name": step.tool}} if step.tool else "auto"
        self.session.append(Kind.ASK, turn=len(state.turns) + 1, tool_choice=choice, seed=self.seed)
        reply = await self.model.complete(self._request(choice), state.id, len(state.turns) + 1)
        self.session.append(Kind.REPLY, message=reply.message, finish_reason=reply.finish_reason, cost=reply.cost)
        self.view.turn(state.id, state.turns[-1])

    def _request(self, choice: Any) -> dict[str, Any]:
        opened = self.state.opened
        request: dict[str, Any] = {"model": opened["model"], "messages": self.state.messages}
        if opened["tools"]:
            request |= {"tools": opened["tools"], "tool_choice": choice}
        request |= opened["sampling"]
        return request if self.seed is None else request | {"seed": self.seed}

    async def _execute(self, call: Call) -> None:
        arguments, result = None, None
        if self.state.finish_reason == "length":
            result = ToolResult("Not run: the reply was cut off. Make it shorter.", True, None, Fault.CUT)
        else:
            arguments, result = _arguments_of(call)
        if arguments is not None:
            self.session.append(Kind.CALL, call=call.id, name=call.name)
            bound = self.state.opened["bound"].get(call.name, {})
            result = await self.toolbox.call(call.name, arguments | bound)
        assert result is not None
        self.session.append(
            Kind.RESULT,
            call=call.id,
            text=cut(result.text, self.state.opened["output_limit"]),
            is_error=result.is_error,
            data=result.data,
            fault=result.fault,
        )
        self.view.tool(self.state.id, call.name, result)

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


def _arguments_of(call: Call) -> tuple[dict[str, Any] | None, ToolResult | None]:
    """The arguments as an object, or the error result that tells the model what is wrong with them."""
    try:
        arguments = json.loads(call.arguments or "{}")
        problem = "" if isinstance(arguments, dict) else "they are not a JSON object"
    except RecursionError:
        arguments, problem = None, "they are nested too deeply"
    except ValueError as error:
        arguments, problem = None, str(error)
    if not problem:
        return arguments, None
    text = f"The arguments of {call.name} cannot be read: {problem}. Nothing was run; call it again."
    return None, ToolResult(text, True, None, Fault.MALFORMED)


def _last_text(state: State) -> str:
    return " ".join(str(state.messages[-1].get("content") or "").split())[:200]
