"""Token-exact history: the ids of turns that were generated here, spliced in when their text comes back.

A model may write text in tokens that the tokenizer would have chosen otherwise. Encoding such a turn afresh changes
its ids, and the cached prefix ends there. So the ids of a finished turn are remembered under a digest of the whole
text up to its end. The next prompt is cut at its special tokens, which is where encoding can be cut without changing
it; the longest beginning that is remembered gives its ids verbatim, and only the rest is encoded.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from engine.prompt.shares import Shares
from engine.prompt.text import well_formed


class History(Enum):
    """How the answers in a prompt were encoded."""

    NEW = "new"  # there are none yet
    SPLICED = "spliced"  # all of them as the very ids that were generated
    EDITED = "edited"  # up to one of which the transcript knows another continuation
    UNKNOWN = "unknown"  # some were never generated here, or are forgotten


class Key(NamedTuple):
    """A namespace (a tenant; never shared) and the digest of a text."""

    namespace: str
    digest: bytes


class Encoder(Protocol):
    """What a transcript needs of a tokenizer."""

    specials: Mapping[str, int]

    def encode(self, text: str) -> list[int]: ...


@dataclass(eq=False)
class Turn:
    """A conversation up to the end of an answer: `own` are the ids that it adds to `parent`, an earlier end."""

    key: Key
    parent: Turn | None
    own: array[int]
    answers: int
    length: int = field(init=False)
    children: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.length = len(self.own) + (self.parent.length if self.parent else 0)

    @property
    def ids(self) -> list[int]:
        """All ids, from the conversation's beginning."""
        ids = array("i")
        for turn in reversed(list(self.lineage())):
            ids.extend(turn.own)
        return ids.tolist()

    def lineage(self) -> Iterator[Turn]:
        """This turn and those before it."""
        turn: Turn | None = self
        while turn is not None:
            yield turn
            turn = turn.parent


@dataclass(frozen=True)
class Encoded:
    """A prompt's ids, and the remembered turn that they begin with."""

    ids: list[int]
    turn: Turn | None


class Transcript:
    """Remembers up to `max_tokens` ids of all namespaces, those of a shared beginning once. Thread-safe.

    When it is full, the namespace that holds the most forgets the turn that it used longest ago: no other can push out
    a turn of one that holds no more than an equal share. Using a turn uses all before it, and those after itself: so
    what is forgotten never has a listed turn behind it. `counts` are the prompts by their history.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._turns: defaultdict[str, OrderedDict[bytes, Turn]] = defaultdict(OrderedDict)
        self._shares = Shares()
        self.counts = dict.fromkeys(History, 0)

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._turns.values()))

    @property
    def tokens(self) -> int:
        """How many ids are kept."""
        return self._shares.total

    def held_by(self, namespace: str) -> int:
        """How many of them belong to one namespace."""
        return self._shares.of(namespace)

    def remember(
        self, namespace: str, text: str, ids: Sequence[int], *, after: Turn | None = None, answers: int = 1
    ) -> Turn | None:
        """Keep `ids` as the tokens of `text`: a prompt and the answer generated after it, `answers` in all.

        `text` ends just before the special token that ends the answer. `ids` begin with those of `after`. They say
        what `text` says: their special tokens and bytes that are no UTF-8 may be missing or replaced in it.
        None if they are too many.
        """
        if not ids or len(ids) > self._max_tokens:
            return None
        key = Key(namespace, blake2b(well_formed(text).encode("utf-8"), digest_size=16).digest())
        with self._lock:
            parent = after if after is not None and self._may_precede(after, key) else None
            turn = Turn(key, parent, array("i", ids[parent.length if parent else 0 :]), answers)
            self._list(turn)
            while self.tokens > self._max_tokens:
                self._forget(next(iter(self._turns[self._shares.largest()].values())))
            return turn if self._listed(turn) else None

    def encode(self, namespace: str, text: str, tokenizer: Encoder, *, answers: int | None = None) -> Encoded:
        """The ids of `text`: remembered ones for the longest known beginning, the ordinary encoding for the rest.

        `answers` is how many it holds; None for a text that isn't counted.
        """
        text = well_formed(text)
        turn, end = self._recall(namespace, list(_boundaries(text, tokenizer)), answers)
        rest = tokenizer.encode(text[end:]) if end < len(text) else []
        return Encoded(turn.ids + rest if turn else rest, turn)

    def _recall(
        self, namespace: str, boundaries: list[tuple[int, bytes]], answers: int | None
    ) -> tuple[Turn | None, int]:
        """The remembered turn of the longest known beginning, and where it ends in the text."""
        with self._lock:
            known: Mapping[bytes, Turn] = self._turns.get(namespace, OrderedDict())
            found = ((known.get(digest), end) for end, digest in reversed(boundaries))
            turn, end = next(((turn, end) for turn, end in found if turn is not None), (None, 0))
            if turn is not None:
                self._touch(turn)
            if answers is not None:
                self.counts[_history(turn, answers)] += 1
            return turn, end

    def _may_precede(self, turn: Turn, key: Key) -> bool:
        return self._listed(turn) and turn.key.namespace == key.namespace and turn.key != key

    def _listed(self, turn: Turn) -> bool:
        own = self._turns.get(turn.key.namespace)
        return own is not None and own.get(turn.key.digest) is turn

    def _list(self, turn: Turn) -> None:
        namespace, digest = turn.key
        self._shares.add(namespace, len(turn.own))
        if turn.parent is not None:
            turn.parent.children += 1
        if (old := self._turns[namespace].get(digest)) is not None:
            self._forget(old)
        self._turns[namespace][digest] = turn
        self._touch(turn)

    def _touch(self, turn: Turn) -> None:
        own = self._turns[turn.key.namespace]
        for used in turn.lineage():
            if self._listed(used):
                own.move_to_end(used.key.digest)

    def _forget(self, turn: Turn) -> None:
        """Unlist a turn. Its ids stay as long as turns behind it need them, and with them those before it."""
        namespace, digest = turn.key
        del self._turns[namespace][digest]
        if not self._turns[namespace]:
            del self._turns[namespace]
        last: Turn | None = turn
        while last is not None and not last.children and not self._listed(last):
            self._shares.add(namespace, -len(last.own))
            last = last.parent
            if last is not None:
                last.children -= 1


def _history(turn: Turn | None, answers: int) -> History:
    if turn is None:
        return History.UNKNOWN if answers else History.NEW
    if turn.answers >= answers:
        return History.SPLICED
    return History.EDITED if turn.children else History.UNKNOWN


def _boundaries(text: str, tokenizer: Encoder) -> Iterator[tuple[int, bytes]]:
    """Each place in `text` where a special token begins, and its end, with the digest of everything before it."""
    digest = blake2b(digest_size=16)
    start = 0
    for end in [*special_starts(text, tokenizer), len(text)]:
        digest.update(text[start:end].encode("utf-8"))
        start = end
        yield end, digest.digest()


def special_starts(text: str, tokenizer: Encoder, start: int = 0) -> Iterator[int]:
    """Where special tokens begin in `text`, from `start` on."""
    if tokenizer.specials:
        for match in _any_of(tuple(tokenizer.specials)).finditer(text, start):
            yield match.start()


@lru_cache(maxsize=8)
def _any_of(specials: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(specials, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))
