"""The session files of a repository, read only: a torn last line is left out, not cut away, and nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.events import BadSession, Event, Kind, decode_all
from agents.session import path_of
from agents.state import State, Turn

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
_SAYING = (Kind.OPEN, Kind.MESSAGE, Kind.REPLY, Kind.COMPACT)
_COUNTS = ("prompt", "cached", "completion")


@dataclass(frozen=True)
class Recorded:
    """A session with all its events: a fork's begin with those it shares with its parent."""

    id: str
    parent: str | None
    events: tuple[Event, ...]
    shared: int
    """Events before its own."""


class Library:
    """Reads each file once. Every method that reads raises BadSession for a file that cannot be used."""

    def __init__(self, repo: Path) -> None:
        """`repo` may also be a folder of results of `sapwood eval`."""
        evaluated = (repo / "results.json").is_file()
        self.folder = repo / "sessions" if evaluated else repo / ".sapwood" / "sessions"
        self._read: dict[str, Recorded] = {}

    def names(self) -> list[str]:
        """All sessions, each followed by its branches, the newest first."""
        names = [path.stem for path in self.folder.glob("*.jsonl")]
        return sorted(sorted(names, key=_place), key=lambda name: name.partition(".")[0], reverse=True)

    def branches(self, name: str) -> list[str]:
        """Its forks, and theirs."""
        return sorted((other for other in self.names() if other.startswith(f"{name}.")), key=_place)

    def read(self, name: str) -> Recorded:
        return self._session(name, ())

    def _session(self, name: str, heirs: tuple[str, ...]) -> Recorded:
        if name in heirs:
            raise BadSession(f"session {name} is a branch of itself: its file was changed by hand")
        if name not in self._read:
            self._read[name] = self._assemble(name, heirs)
        return self._read[name]

    def _assemble(self, name: str, heirs: tuple[str, ...]) -> Recorded:
        own = _events(path_of(self.folder, name))
        if not own or own[0].kind not in (Kind.OPEN, Kind.FORK):
            raise BadSession(f"{name}.jsonl does not begin with an open or fork event: it is no session")
        if own[0].kind is Kind.OPEN:
            return Recorded(name, None, tuple(own), 0)
        parent, count = own[0].data.get("parent"), own[0].data.get("event")
        if not isinstance(parent, str) or not isinstance(count, int):
            raise BadSession(f"{name}.jsonl does not say which session it branched from, and where")
        before = self._session(parent, (*heirs, name)).events
        if not 0 < count <= len(before):
            raise BadSession(f"{parent}.jsonl ends before the event that {name}.jsonl branched from")
        return Recorded(name, parent, (*before[:count], *own), count)


def fold(recorded: Recorded) -> Iterator[tuple[Event, State]]:
    """Each event with the state after it; it is one state, which goes on changing."""
    state = State()
    for number, event in enumerate(recorded.events):
        try:
            state.apply(event)
            _check(state, event)
        except _MALFORMED as error:
            raise BadSession(
                f"{recorded.id}.jsonl: event {number} ({event.kind}) cannot be used ({error!r})"
            ) from error
        yield event, state


def final(recorded: Recorded) -> State:
    *_, (_, state) = fold(recorded)
    return state


def _events(path: Path) -> list[Event]:
    try:
        return [event for event, _ in decode_all(path.read_bytes(), path.name)]
    except OSError as error:
        raise BadSession(f"cannot read {path}: {error.strerror}") from error
    except RecursionError as error:
        raise BadSession(f"{path.name} holds an event that is nested too deeply") from error


def _check(state: State, event: Event) -> None:
    """What the fold takes as it comes, but a reader counts with."""
    _need(isinstance(event.at, int | float) and abs(event.at) < 1e11, "at")
    if event.kind is Kind.OPEN:
        _need(isinstance(state.opened.get("tools", []), list), "tools")
        _need(isinstance(state.opened.get("task"), str | None), "task")
    if event.kind in (Kind.REPLY, Kind.COMPACT):
        _check_turn(state.turns[-1])
    if event.kind in _SAYING:
        for message in event.data.get("messages") or [event.data["message"]]:
            _need(isinstance(message, dict) and isinstance(message.get("role"), str), "message")


def _check_turn(turn: Turn) -> None:
    _need(all(isinstance(name, str) for name in turn.calls), "calls")
    for name in _COUNTS:
        _need(isinstance(getattr(turn, name), int | None), name)
    for name in ("ttft", "seconds"):
        value = getattr(turn, name)
        _need(isinstance(value, int | float) and 0 <= value < 1e9, name)


def _need(holds: bool, field: str) -> None:
    if not holds:
        raise ValueError(field)


def _place(name: str) -> list[tuple[int, str]]:
    """A sort key: the labels of branches count, so that b2 comes before b10."""
    return [(len(label), label) for label in name.split(".")]
