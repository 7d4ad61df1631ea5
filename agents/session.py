"""One session: its JSON-lines file and the state that the file folds to.

An event is on the disk (flushed and synced) before the state changes and before anything is done about it,
so a kill at any point loses at most what was being streamed. Files live in
`<repo>/.sapwood/sessions/ID.jsonl`.
"""

from __future__ import annotations

import copy
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agents.events import VERSION, BadSession, Event, Kind, decode_all, encode
from agents.state import State, Status

_PART = re.compile(r"\.[bs]\d+$")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


def new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def folder_of(repo: Path) -> Path:
    """The repository's session folder, made on first use and hidden from git."""
    home = repo / ".sapwood"
    sessions = home / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return sessions


@dataclass
class Session:
    path: Path
    state: State = field(default_factory=State)
    count: int = 0
    """Events so far, the parent's shared ones included: a fork's address."""
    replied_at: int = 0
    """Events before the newest reply."""

    @classmethod
    def open(cls, folder: Path, opened: dict[str, Any]) -> Self:
        """Begin a session. `opened`: task, model, base_url, profile, tools, messages, sampling, bound,
        notes.
        """
        identity = new_id()
        session = cls(folder / f"{identity}.jsonl")
        session.append(Kind.OPEN, version=VERSION, id=identity, **opened)
        return session

    @classmethod
    def load(cls, folder: Path, identity: str) -> Self:
        """Fold an existing file, and cut away a torn last line so that appending is safe."""
        session, keep = cls(path_of(folder, identity)), 0
        for event, end in _read(session.path):
            session._take(event, folder)
            keep = end
        if not session.count:
            raise BadSession(f"{session.path.name} holds no event: start a new session")
        if keep != session.path.stat().st_size:
            os.truncate(session.path, keep)
        return session

    def fork(self, label: str) -> Session:
        """A child that shares every event so far; later events are its own."""
        identity = f"{self.state.id}.{label}"
        child = Session(self.path.with_name(f"{identity}.jsonl"), copy.deepcopy(self.state), self.count)
        child.append(Kind.FORK, version=VERSION, id=identity, parent=self.state.id, event=self.count)
        return child

    def fork_before_reply(self, label: str) -> Session:
        """A child that shares every event before the newest reply."""
        return Session.up_to(self.path.parent, self.state.id, self.replied_at).fork(label)

    @property
    def is_part(self) -> bool:
        """A branch or a sub-agent of another session's run; a fork that a person made is none."""
        return bool(_PART.search(self.state.id))

    def children(self, letter: str) -> int:
        """How many branches (`b`), sub-agents (`s`) or forks (`f`) of this session there ever were."""
        return len(list(self.path.parent.glob(f"{self.path.stem}.{letter}*.jsonl")))

    @classmethod
    def up_to(cls, folder: Path, identity: str, event: int | None) -> Session:
        """A session as it was after its first `event` events (default: all of them); only good for a fork.

        Raises BadSession where there are fewer.
        """
        path = path_of(folder, identity)
        session = cls(path)
        for found, _ in _read(path):
            if session.count == event:
                break
            session._take(found, folder)
        if event is not None and session.count > event:
            raise BadSession(f"event {event} of {identity} is its parent's: --fork {session.state.parent}@{event}")
        if not session.count or (event is not None and session.count < event):
            raise BadSession(f"session {identity} has {session.count} events: --fork {identity}@N with N up to that")
        return session

    @classmethod
    def fork_at(cls, folder: Path, identity: str, event: int | None = None) -> Session:
        """A fork of a session, finished or not, after its first `event` events. Raises BadSession."""
        parent = cls.up_to(folder, identity, event)
        return parent.fork(f"f{parent.children('f') + 1}")

    def append(self, kind: Kind, **data: Any) -> None:
        event = Event(kind, data, time.time())
        with self.path.open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                _write_all(file.fileno(), encode(event))
                os.fsync(file.fileno())
            except OSError:  # the disk is full: no half line may stand before a later event
                os.ftruncate(file.fileno(), before)
                raise
        self._fold(event)

    def rest(self, status: Status, reason: str) -> None:
        self.append(Kind.STATUS, status=status.value, reason=reason)

    def _take(self, event: Event, folder: Path) -> None:
        if event.kind is Kind.FORK:
            self._inherit(folder, event.data)
        elif not self.count and event.kind is not Kind.OPEN:
            raise BadSession(f"{self.path.name} does not begin with an open or fork event")
        self._fold(event)

    def _inherit(self, folder: Path, fork: dict[str, Any]) -> None:
        path = path_of(folder, fork["parent"])
        for event, _ in _read(path):
            if self.count == fork["event"]:
                return
            self._take(event, folder)
        if self.count < fork["event"]:
            raise BadSession(f"{path.name} ends before the event that {self.path.name} branched from")

    def _fold(self, event: Event) -> None:
        try:
            self.state.apply(event)
        except (KeyError, TypeError, ValueError) as error:
            raise BadSession(f"{self.path.name}: event {self.count} ({event.kind}) lacks {error}") from error
        if event.kind is Kind.REPLY:
            self.replied_at = self.count
        self.count += 1


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Only one process at a time goes on with a session, so that no call can run twice."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadSession(f"session {path.stem} is being run by another process") from error
        yield


def path_of(folder: Path, identity: str) -> Path:
    path = folder / f"{identity}.jsonl"
    if not _ID.fullmatch(identity) or not path.is_file():
        raise BadSession(f"no session {identity!r} in {folder}")
    return path


def _read(path: Path) -> list[tuple[Event, int]]:
    try:
        return list(decode_all(path.read_bytes(), path.name))
    except OSError as error:
        raise BadSession(f"cannot read {path}: {error.strerror}") from error
