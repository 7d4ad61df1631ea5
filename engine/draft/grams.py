"""Where each gram (the last few tokens before a position) occurred in a text, most recent first.

    position     first                                       end
    tokens       │ a b c d │ # │ a b c e f │ # │ a b c           # is SEPARATOR
    previous             ·           ↲                           chain of equal grams, towards the start

A position stands for the token there and is keyed by the gram before it, so it is indexed once that token is known:
a text's own last gram is never found as an occurrence of itself. Positions only grow; when the text's oldest
tokens are dropped, `first` moves up and chains that lead below it have ended.
The scheme is that of LZ77 compressors: a hash table of short strings with bounded chains.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

SEPARATOR = -1
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Match:
    """The `length` tokens before `position` in `text` are those that were looked for; valid until text is dropped."""

    text: GramIndex
    position: int
    length: int

    def continuation(self, limit: int) -> list[int]:
        """At most `limit` tokens that followed. Where the text itself ends there, its last period goes on."""
        at = self.position - self.text.first
        ids = self.text.tokens[at : at + limit].tolist()
        if SEPARATOR in ids:
            return ids[: ids.index(SEPARATOR)]
        return list(islice(cycle(ids), limit))


class GramIndex:
    """Work per token added or dropped is constant: one look-up in a dictionary keyed by the gram's hash.

    Two grams with the same hash only share a chain: a lookup compares tokens.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.tokens = array("i")
        self.first = 0
        self._previous = array("q")
        self._last: dict[int, int] = {}
        self._start = 0  # of the text that is being written: grams don't reach across a separator

    @property
    def end(self) -> int:
        return self.first + len(self.tokens)

    @property
    def grams(self) -> int:
        """How many different grams can be found."""
        return len(self._last)

    def extend(self, ids: array[int]) -> None:
        """Continues the text."""
        old = self.end
        self.tokens.extend(ids)
        start = min(max(old, self._start + self.size), self.end)
        self._previous.extend([NOWHERE] * (start - old))
        last, link = self._last, self._previous.append
        for position, key in self._keys(start, self.end):
            link(last.get(key, NOWHERE))
            last[key] = position

    def close(self) -> None:
        """Ends the text; what comes next is another one."""
        self.tokens.append(SEPARATOR)
        self._previous.append(NOWHERE)
        self._start = self.end

    def drop(self, count: int) -> None:
        """Forgets the first `count` tokens, which have to end with a separator."""
        last = self._last
        for position, key in self._keys(self.first + self.size, self.first + count):
            if last.get(key) == position:
                del last[key]
        del self.tokens[:count], self._previous[:count]
        self.first += count

    def find(self, tail: array[int], candidates: int) -> Match | None:
        """The longest match that ends with `tail`'s end, of so many recent ones; the most recent of equals."""
        size, tokens, first = self.size, self.tokens, self.first
        if len(tail) < size:
            return None
        position = self._last.get(hash(tuple(tail[-size:])), NOWHERE)
        best, length = NOWHERE, size - 1
        for _ in range(candidates):
            # a longer match has to agree one token before the best one so far
            if position < first + size or length == len(tail):
                break
            at = position - first
            if at > length and tokens[at - 1 - length] == tail[-1 - length]:
                agreed = _agreement(tokens, at, tail)
                if agreed > length:
                    best, length = position, agreed
            position = self._previous[at]
        return None if best == NOWHERE else Match(self, best, length)

    def _keys(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Each position in [start, stop) with the hash of the gram before it."""
        at, count = start - self.size - self.first, stop - start
        columns = [self.tokens[at + i : at + i + count] for i in range(self.size)] if count > 0 else []
        return enumerate(map(hash, zip(*columns, strict=True)), start)


def _agreement(tokens: Sequence[int], at: int, tail: Sequence[int]) -> int:
    """How many tokens before `at` are those at the end of `tail`."""
    length, limit = 0, min(at, len(tail))
    while length < limit and tokens[at - 1 - length] == tail[-1 - length]:
        length += 1
    return length
