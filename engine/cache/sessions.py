"""Which earlier turn a new turn of a session takes the place of. Token ids only: the tree is told what to mark.

A session's name comes from a client, through the gateway. It should name one conversation, and a new turn then
replaces the one before: what that one had behind the common prefix is superseded. Some clients give one name to
several conversations (all of one user, say). So a new turn replaces the one it has the longest prefix in common with,
and where a turn comes back that had been replaced, the session is known to branch: from then on a turn only replaces
one of which it keeps at least half. A wrong guess costs order of eviction for one turn, never correctness, since
using a branch ends its mark.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.cache.keys import as_key, common

TURNS = 16
"""Turns of a session that are remembered, not counting those that another one continues: enough to see branches."""

BRANCHING_KEEPS = 0.5


class Left(NamedTuple):
    """A path that a turn left: only its first `kept` tokens are part of the new turn."""

    ids: array[int]
    kept: int


@dataclass(eq=False)
class Turn:
    """A prompt and the answers to it. `replaced`: a later turn has taken its place."""

    prompt: array[int]
    answers: list[array[int]] = field(default_factory=list)
    replaced: bool = False

    @property
    def tokens(self) -> int:
        return len(self.prompt) + sum(map(len, self.answers))

    def shares(self, prompt: array[int]) -> int:
        return common(self.prompt, prompt, 0, len(prompt))

    def left_by(self, prompt: array[int]) -> list[Left]:
        """The paths of this turn that a turn with `prompt` does not follow to their end."""
        kept, whole = self.shares(prompt), len(self.prompt)
        lefts = []
        for answer in self.answers or [array("q")]:
            more = common(answer, prompt, whole, len(prompt)) if kept == whole else 0
            if kept + more < whole + len(answer):
                lefts.append(Left(self.prompt + answer, kept + more))
        return lefts


class Session:
    """The last turns of one session, oldest first."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.branches = False

    def begin(self, prompt: array[int]) -> list[Left]:
        """A turn begins. Returns what the turn that it replaces, if any, leaves behind."""
        turn = max(reversed(self.turns), key=lambda t: t.shares(prompt), default=None)
        left = self._replace(turn, prompt) if turn is not None else []
        self.turns.append(Turn(prompt))
        del self.turns[:-TURNS]
        return left

    def _replace(self, turn: Turn, prompt: array[int]) -> list[Left]:
        self.branches = self.branches or turn.replaced
        kept = turn.shares(prompt)
        if kept < (BRANCHING_KEEPS * len(turn.prompt) if self.branches else 1):
            return []
        turn.replaced = True
        if kept == len(turn.prompt):  # continued: the new turn says all that this one could
            self.turns.remove(turn)
        return turn.left_by(prompt)

    def end(self, prompt: array[int], answer: array[int]) -> None:
        turn = next((turn for turn in reversed(self.turns) if turn.prompt == prompt), None)
        if turn is not None:
            turn.answers.append(answer)

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)


class Sessions:
    """The sessions used last, up to `max_tokens` ids in all."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._sessions: OrderedDict[tuple[Hashable, str], Session] = OrderedDict()
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, namespace: Hashable, name: str, prompt: Sequence[int]) -> list[Left]:
        """A turn begins. Returns the paths that it leaves behind."""
        session = self._sessions.setdefault((namespace, name), Session())
        before = session.tokens
        left = session.begin(as_key(prompt))
        self._grew(namespace, name, session.tokens - before)
        return left

    def end(self, namespace: Hashable, name: str, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """An answer of a turn has ended, or its client has gone."""
        session = self._sessions.get((namespace, name))
        if session is not None:
            before = session.tokens
            session.end(as_key(prompt), as_key(answer))
            self._grew(namespace, name, session.tokens - before)

    def newest(self, namespace: Hashable, name: str) -> list[array[int]]:
        """The paths of the newest turn, one for each of its answers; none of a session that is not remembered."""
        session = self._sessions.get((namespace, name))
        if session is None or not session.turns:
            return []
        turn = session.turns[-1]
        return [turn.prompt + answer for answer in turn.answers or [array("q")]]

    def _grew(self, namespace: Hashable, name: str, tokens: int) -> None:
        self.tokens += tokens
        self._sessions.move_to_end((namespace, name))
        while self.tokens > self._max_tokens:
            self.tokens -= self._sessions.popitem(last=False)[1].tokens
