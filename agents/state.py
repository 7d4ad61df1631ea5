"""What a session's events add up to: the messages to send, the calls to run, the totals.

A pure fold: the same events give the same state, so a resumed session is where the killed one was. Messages
are only ever appended: the next request is the last one plus a suffix, which is what keeps the cache warm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.events import Event, Kind

Message = dict[str, Any]


class Status(StrEnum):
    RUNNING = "running"
    SOLVED = "solved"
    """Done, and the tests pass."""
    UNVERIFIED = "unverified"
    """The model says done; there was no test to agree."""
    ANSWERED = "answered"
    """The model answered, and there was nothing that tests could judge."""
    WAITING = "waiting"
    """A call waits for a person's word."""
    NOT_SOLVED = "not_solved"
    MODEL_FAILED = "model_failed"
    """Unreachable, refused or dropped: the same turn can be asked again."""
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    """A branch that another one beat."""

    @property
    def exit_code(self) -> int:
        return _EXIT.get(self, 1)


_EXIT = {Status.SOLVED: 0, Status.ANSWERED: 0, Status.MODEL_FAILED: 3, Status.BUDGET: 4, Status.INTERRUPTED: 130}


class Origin(StrEnum):
    """Who a user message is from."""

    PERSON = "person"
    TESTS = "tests"
    NUDGE = "nudge"
    """The agent, against a model that goes round in circles."""
    NEWS = "news"
    """Something changed outside the conversation: a server's tools, an edit taken back."""


@dataclass(frozen=True)
class Call:
    """A tool call as the model wrote it: `arguments` is its text, byte for byte."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """What one model turn cost. Tokens are the server's own count; None where it reported none."""

    number: int
    prompt: int | None
    cached: int | None
    completion: int | None
    ttft: float
    seconds: float
    calls: tuple[str, ...] = ()
    inherited: bool = False
    """Run once by the parent, before this branch began."""

    @property
    def computed(self) -> int | None:
        """Prompt tokens that were really computed; unknown where the server does not report cached tokens."""
        return None if self.prompt is None or self.cached is None else self.prompt - self.cached

    @property
    def tokens_per_second(self) -> float | None:
        decoding = self.seconds - self.ttft
        return None if not self.completion or self.completion < 2 or decoding <= 0 else (self.completion - 1) / decoding

    def as_json(self) -> dict[str, Any]:
        return {
            "turn": self.number,
            "calls": list(self.calls),
            "prompt_tokens": self.prompt,
            "cached_tokens": self.cached,
            "computed_tokens": self.computed,
            "completion_tokens": self.completion,
            "ttft_ms": round(self.ttft * 1000, 1),
            "tokens_per_second": self.tokens_per_second,
        }


@dataclass
class State:
    id: str = ""
    opened: dict[str, Any] = field(default_factory=dict)
    """The `open` event: task, model, profile, tools, sampling, bound, notes. Never changes."""
    parent: str | None = None
    messages: list[Message] = field(default_factory=list)
    pending: list[Call] = field(default_factory=list)
    """Calls of the newest reply that have no result yet."""
    turns: list[Turn] = field(default_factory=list)
    status: Status = Status.RUNNING
    reason: str = ""
    verdict: dict[str, Any] | None = None
    """The newest `verify` event, until something else happens; None when the tests must run again."""
    tested: dict[str, Any] | None = None
    """The newest `verify` event, whatever happened since."""
    finish_reason: str | None = None
    refused: bool = False
    """The newest tool result is an error."""
    errors: int = 0
    """Error results in a row."""
    turns_used: int = 0
    """Turns since the session was opened or resumed: what the budget counts."""
    faults: int = 0
    """Malformed, unknown or timed-out calls and cut replies in a row."""
    rejections: int = 0
    """Times the tests turned down finished work since opened or resumed."""
    nudges: int = 0
    """Times the agent had to break a circle since opened or resumed."""
    started: set[str] = field(default_factory=set)
    """Calls that a tool began to work on."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By call: what a person said to it."""
    task_at: int = 0
    """Where in `messages` the newest words of a person are."""
    kept: int = 0
    """Messages right after the newest compaction; 0 before the first."""
    compactions: int = 0
    switched: str | None = None

    @property
    def tools(self) -> list[dict[str, Any]]:
        return list(self.opened.get("tools", []))

    @property
    def model(self) -> str:
        return self.switched or str(self.opened["model"])

    @property
    def lineage(self) -> str:
        """The session's name towards the gateway: a compacted conversation goes on as a branch of its beginning."""
        return f"{self.id}.c{self.compactions}" if self.compactions else self.id

    @property
    def notes(self) -> dict[str, Any]:
        return dict(self.opened.get("notes", {}))

    def apply(self, event: Event) -> None:
        _APPLY[event.kind](self, event.data)


def _open(state: State, data: dict[str, Any]) -> None:
    state.id, state.opened = data["id"], data
    state.messages.extend(data["messages"])
    state.task_at = len(state.messages) - 1


def _fork(state: State, data: dict[str, Any]) -> None:
    state.id, state.parent = data["id"], data["parent"]
    state.status, state.turns_used = Status.RUNNING, 0
    state.turns = [Turn(**{**vars(turn), "inherited": True}) for turn in state.turns]


def _message(state: State, data: dict[str, Any]) -> None:
    state.messages.append(data["message"])
    state.verdict = None
    origin = data.get("origin", Origin.TESTS)
    state.nudges += origin == Origin.NUDGE
    if origin == Origin.PERSON:
        state.task_at = len(state.messages) - 1


def _reply(state: State, data: dict[str, Any]) -> None:
    message = data["message"]
    state.messages.append(message)
    calls = [Call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
    state.pending = calls
    state.finish_reason = data["finish_reason"]
    state.faults += state.finish_reason == "length"
    state.verdict = None
    state.turns_used += 1
    names = tuple(call.name for call in calls)
    state.turns.append(Turn(number=len(state.turns) + 1, calls=names, **data["cost"]))


def _result(state: State, data: dict[str, Any]) -> None:
    state.pending = [call for call in state.pending if call.id != data["call"]]
    state.started.discard(data["call"])
    state.answers.pop(data["call"], None)
    state.messages.append({"role": "tool", "tool_call_id": data["call"], "content": data["text"]})
    state.refused = data["is_error"]
    state.errors = state.errors + 1 if data["is_error"] else 0
    if data.get("fault") != "cut":  # a cut reply was counted when it came
        state.faults = state.faults + 1 if data.get("fault") else 0
    state.verdict = None


def _approve(state: State, data: dict[str, Any]) -> None:
    state.answers[data["call"]] = data


def _call(state: State, data: dict[str, Any]) -> None:
    state.started.add(data["call"])


def _compact(state: State, data: dict[str, Any]) -> None:
    state.messages = [*state.opened["messages"], *data["messages"]]
    state.task_at, state.kept = len(state.messages) - 1, len(state.messages)
    state.compactions += 1
    state.turns_used += 1
    state.turns.append(Turn(number=len(state.turns) + 1, calls=("(summary)",), **data["cost"]))


def _model(state: State, data: dict[str, Any]) -> None:
    state.switched = data["model"]


def _verify(state: State, data: dict[str, Any]) -> None:
    state.verdict = state.tested = data
    state.rejections += data["verdict"] == "failed"


def _status(state: State, data: dict[str, Any]) -> None:
    state.status, state.reason = Status(data["status"]), data.get("reason", "")


def _resume(state: State, data: dict[str, Any]) -> None:
    state.status, state.reason, state.verdict = Status.RUNNING, "", None
    state.turns_used = state.faults = state.rejections = state.nudges = 0


def _nothing(state: State, data: dict[str, Any]) -> None:
    """`ask` and `fail` are there so that a reader knows what was going on; they change no state."""


_APPLY: dict[Kind, Callable[[State, dict[str, Any]], None]] = {
    Kind.OPEN: _open,
    Kind.FORK: _fork,
    Kind.MESSAGE: _message,
    Kind.ASK: _nothing,
    Kind.REPLY: _reply,
    Kind.FAIL: _nothing,
    Kind.APPROVE: _approve,
    Kind.CALL: _call,
    Kind.RESULT: _result,
    Kind.VERIFY: _verify,
    Kind.COMPACT: _compact,
    Kind.MODEL: _model,
    Kind.STATUS: _status,
    Kind.RESUME: _resume,
}
