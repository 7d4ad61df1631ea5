"""A session's events as a person reads them: what was said, each turn with its calls and their results, the tests,
and what happened around them. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.events import Event, Kind
from agents.state import Origin, State, Status, Turn

_UNREAD = (ValueError, RecursionError)
_UNDECIDED = (Status.RUNNING, Status.WAITING, Status.INTERRUPTED, Status.CANCELLED)


@dataclass(frozen=True)
class Argument:
    name: str
    text: str


@dataclass
class Call:
    id: str
    name: str
    raw: str
    """The arguments as the model wrote them."""
    result: str | None = None
    """None while there is none: the session ended before it."""
    is_error: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    began: float | None = None
    seconds: float | None = None
    answer: dict[str, Any] | None = None
    """What a person said to it, where one was asked."""

    @property
    def arguments(self) -> list[Argument] | None:
        """None where they cannot be read."""
        try:
            given = json.loads(self.raw or "{}")
            return [Argument(name, _shown(value)) for name, value in given.items()]
        except (*_UNREAD, AttributeError):
            return None

    @property
    def hint(self) -> str:
        """What tells this call from others, in a line."""
        texts = [argument.text for argument in self.arguments or ()]
        return " ".join((texts[0] if texts else "").split())[:90]

    @property
    def tests(self) -> str:
        """How a test run came out: `passed`, `failed`, …; empty for other tools."""
        return str(self.data["outcome"]) if "outcome" in self.data else ""


@dataclass(frozen=True)
class Said:
    """A message that no model wrote."""

    role: str
    text: str
    origin: str = ""
    kind: str = "said"


@dataclass(frozen=True)
class Reply:
    turn: Turn
    text: str
    reasoning: str
    calls: list[Call]
    cut: bool
    kind: str = "reply"


@dataclass(frozen=True)
class Tests:
    """A run of the tests by the agent itself."""

    verdict: str
    text: str
    kind: str = "tests"


@dataclass(frozen=True)
class Note:
    """What happened to the session itself. `tone`: good, bad or plain."""

    title: str
    text: str = ""
    tone: str = "plain"
    turn: Turn | None = None
    """The model turn that this took, if any."""
    kind: str = "note"


Item = Said | Reply | Tests | Note


def tell(folded: Iterable[tuple[Event, State]]) -> list[Item]:
    items: list[Item] = []
    for event, state in folded:
        if event.kind is Kind.OPEN:
            items += [_said(message) for message in event.data["messages"]]
        elif event.kind in (Kind.CALL, Kind.RESULT, Kind.APPROVE):
            _follow(items, event)
        elif event.kind is not Kind.ASK:
            items.append(_item(event, state))
    return items


def _item(event: Event, state: State) -> Item:
    data = event.data
    match event.kind:
        case Kind.MESSAGE:
            return _said(data["message"], str(data.get("origin", Origin.TESTS)))
        case Kind.REPLY:
            return _reply(data, state)
        case Kind.VERIFY:
            return Tests(str(data["verdict"]), text_of(data.get("text")))
        case Kind.COMPACT:
            summary = "\n\n".join(_said(message).text for message in data["messages"])
            return Note("The conversation so far was replaced by a summary", summary, turn=state.turns[-1])
        case Kind.FAIL:
            return Note("The model's turn did not arrive", text_of(data.get("text")), "bad")
        case Kind.FORK:
            return Note("A branch goes on from here")
        case Kind.MODEL:
            return Note(f"From here on the model is {data['model']}")
        case Kind.RESUME:
            return Note("Resumed")
    return Note(status_word(state.status), text_of(state.reason), tone_of(state.status))


def status_word(status: Status) -> str:
    return "unfinished" if status is Status.RUNNING else status.value.replace("_", " ")


def tone_of(status: Status) -> str:
    if status.exit_code == 0:
        return "good"
    return "plain" if status in _UNDECIDED else "bad"


def _said(message: dict[str, Any], origin: str = "") -> Said:
    return Said(str(message["role"]), text_of(message.get("content")), origin)


def _reply(data: dict[str, Any], state: State) -> Reply:
    message = data["message"]
    calls = [Call(call.id, str(call.name), text_of(call.arguments)) for call in state.pending]
    text, reasoning = text_of(message.get("content")), text_of(message.get("reasoning_content"))
    return Reply(state.turns[-1], text, reasoning, calls, data["finish_reason"] == "length")


def _follow(items: list[Item], event: Event) -> None:
    """Put what happened to a call on it. Ids may come again in later turns: the first open call is meant."""
    replies = (item for item in reversed(items) if isinstance(item, Reply))
    calls = next(replies).calls if any(isinstance(item, Reply) for item in items) else []
    call = next((call for call in calls if call.id == event.data["call"] and call.result is None), None)
    if call is None:
        return
    if event.kind is Kind.CALL:
        call.began = event.at
    elif event.kind is Kind.APPROVE:
        call.answer = event.data
    else:
        call.result, call.is_error = text_of(event.data.get("text")), bool(event.data.get("is_error"))
        data = event.data.get("data")
        call.data = data if isinstance(data, dict) else {}
        call.seconds = None if call.began is None else max(0.0, event.at - call.began)


def text_of(content: Any) -> str:
    """Message content as text: a string, or the text of its parts."""
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {} for part in content]
        return "\n".join(str(part.get("text") or f"({part.get('type', 'something')})") for part in parts)
    return "" if content is None else str(content)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
