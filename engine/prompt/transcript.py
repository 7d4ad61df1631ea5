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
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from engine.prompt.text import well_formed


class Key(NamedTuple):
    """A namespace (a tenant; never shared) and the digest of a text."""

    namespace: str
    digest: bytes


class Encoder(Protocol):
    """What a transcript needs of a tokenizer."""

    specials: Mapping[str, int]

    def encode(self, text: str) -> list[int]: ...


class Transcript:
    """Remembers up to `max_tokens` ids; the turns used longest ago are forgotten first. Thread-safe.

    `spliced` and `unknown` count the prompts that did and did not begin with a remembered turn.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._turns: OrderedDict[Key, array[int]] = OrderedDict()
        self.tokens = 0
        self.spliced = 0
        self.unknown = 0

    def __len__(self) -> int:
        return len(self._turns)

    def remember(self, namespace: str, text: str, ids: Sequence[int]) -> None:
        """Keep `ids` as the tokens of `text`: a prompt and the turn generated after it.

        `text` ends just before the special token that ends the turn, and `ids` decode to exactly `text`.
        """
        if not ids or len(ids) > self._max_tokens:
            return
        key = Key(namespace, blake2b(well_formed(text).encode("utf-8"), digest_size=16).digest())
        with self._lock:
            self._forget(key)
            self._turns[key] = array("i", ids)
            self.tokens += len(ids)
            while self.tokens > self._max_tokens:
                self._forget(next(iter(self._turns)))

    def encode(self, namespace: str, text: str, tokenizer: Encoder) -> list[int]:
        """The ids of `text`: remembered ones for the longest known beginning, the ordinary encoding for the rest."""
        text = well_formed(text)
        known, end = self._recall(namespace, list(_boundaries(text, tokenizer)))
        rest = text[end:]
        return [*known, *(tokenizer.encode(rest) if rest else ())]

    def _recall(self, namespace: str, boundaries: list[tuple[int, bytes]]) -> tuple[Sequence[int], int]:
        """The remembered ids of the longest known beginning, and where it ends in the text."""
        with self._lock:
            for end, digest in reversed(boundaries):
                key = Key(namespace, digest)
                if key in self._turns:
                    self.spliced += 1
                    self._turns.move_to_end(key)
                    return self._turns[key], end
            self.unknown += 1
            return (), 0

    def _forget(self, key: Key) -> None:
        self.tokens -= len(self._turns.pop(key, ()))


def _boundaries(text: str, tokenizer: Encoder) -> Iterator[tuple[int, bytes]]:
    """Each place in `text` where a special token begins, and its end, with the digest of everything before it."""
    digest = blake2b(digest_size=16)
    start = 0
    for end in [*_special_starts(text, tuple(tokenizer.specials)), len(text)]:
        digest.update(text[start:end].encode("utf-8"))
        start = end
        yield end, digest.copy().digest()


def _special_starts(text: str, specials: tuple[str, ...]) -> Iterator[int]:
    if specials:
        for match in _any_of(specials).finditer(text):
            yield match.start()


@lru_cache(maxsize=8)
def _any_of(specials: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(specials, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))
