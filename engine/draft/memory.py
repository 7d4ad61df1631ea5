"""What requests have generated before, so that others can draft from it; namespaces (tenants) never mix.

Bounded by tokens, least recently used out first: an output leaves when it is the oldest, unless a draft was taken
from it since it was stored; then it is stored once more as the youngest (second chance). So within a namespace
the oldest output is always the one with the lowest positions, and forgetting it cuts chains only at their end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from engine.draft.config import DraftConfig
from engine.draft.grams import GramIndex, Match


@dataclass(slots=True)
class _Output:
    """Tokens [start, start + length) of its namespace's text; one separator follows."""

    start: int
    length: int
    used: bool = False


class _Outputs:
    """The outputs of one namespace, oldest first."""

    def __init__(self, min_match: int) -> None:
        self._text = GramIndex(min_match)
        self._outputs: deque[_Output] = deque()
        self._by_content: dict[int, _Output] = {}

    def __len__(self) -> int:
        return len(self._outputs)

    def add(self, ids: array[int]) -> bool:
        """False if the same output is there already: it counts as used."""
        content = hash(tuple(ids))
        known = self._by_content.get(content)
        if known and self._read(known) == ids:
            known.used = True
            return False
        output = _Output(self._text.end, len(ids))
        self._text.extend(ids)
        self._text.close()
        self._outputs.append(output)
        self._by_content[content] = output
        return True

    def drop_oldest(self) -> array[int] | None:
        """Its tokens if it has been used (the caller stores them again), else None."""
        output = self._outputs.popleft()
        ids = self._read(output)
        content = hash(tuple(ids))
        if self._by_content.get(content) is output:
            del self._by_content[content]
        self._text.drop(output.length + 1)
        return ids if output.used else None

    def match(self, tail: array[int], candidates: int) -> Match | None:
        match = self._text.find(tail, candidates)
        if match:
            at = bisect_right(self._outputs, match.position, key=lambda output: output.start)
            self._outputs[at - 1].used = True
        return match

    def _read(self, output: _Output) -> array[int]:
        at = output.start - self._text.first
        return self._text.tokens[at : at + output.length]


class DraftMemory:
    """Shared by all requests of an engine; called from the engine's thread only."""

    def __init__(self, config: DraftConfig | None = None) -> None:
        self._config = config or DraftConfig()
        self._namespaces: dict[Hashable, _Outputs] = {}
        self._ages: deque[tuple[Hashable, int]] = deque()  # (namespace, length) of each output, oldest first
        self.tokens = 0

    def __len__(self) -> int:
        """How many outputs are remembered."""
        return len(self._ages)

    def remember(self, namespace: Hashable, ids: Sequence[int]) -> None:
        """Stores a finished output; of one that is larger than the memory, its end."""
        new = array("i", ids[-self._config.memory_tokens :] if self._config.memory_tokens else ())
        if len(new) <= self._config.min_match:
            return  # nothing that could be matched and continued
        self._add(namespace, new)
        while self.tokens > self._config.memory_tokens:
            self._evict()

    def match(self, namespace: Hashable, tail: Sequence[int]) -> Match | None:
        """Where the end of `tail` occurs in an earlier output; valid until the next `remember`."""
        outputs = self._namespaces.get(namespace)
        if outputs is None:
            return None
        return outputs.match(array("i", tail[-self._config.max_match :]), self._config.max_candidates)

    def propose(self, namespace: Hashable, tail: Sequence[int], max_tokens: int) -> list[int]:
        """What followed there: at most `max_tokens` tokens."""
        match = self.match(namespace, tail)
        return match.continuation(max_tokens) if match and max_tokens > 0 else []

    def _add(self, namespace: Hashable, ids: array[int]) -> None:
        outputs = self._namespaces.get(namespace)
        if outputs is None:
            outputs = self._namespaces[namespace] = _Outputs(self._config.min_match)
        if outputs.add(ids):
            self._ages.append((namespace, len(ids)))
            self.tokens += len(ids)

    def _evict(self) -> None:
        """One output, or one second chance: either way there is one chance less, so this comes to an end."""
        namespace, length = self._ages.popleft()
        self.tokens -= length
        outputs = self._namespaces[namespace]
        kept = outputs.drop_oldest()
        if kept is not None:
            self._add(namespace, kept)
        elif not len(outputs):
            del self._namespaces[namespace]
