"""One request inside the engine: what is known, what is computed, and the state it is in."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.cache.lease import Lease
    from engine.draft.drafter import Drafter
    from engine.output.text import TextOutput
    from engine.sample.grammar import GrammarState
    from engine.sample.params import SamplingParams

_numbers = itertools.count()


class State(Enum):
    """WAITING → RUNNING → FINISHED; RUNNING → WAITING when memory runs out (retracted, computed again later);
    any → ABORTED when the client has gone, then FINISHED at the next step fence, where memory is freed."""

    WAITING = "waiting"
    RUNNING = "running"
    ABORTED = "aborted"
    FINISHED = "finished"


class Finish(Enum):
    """Why a request ended, in OpenAI's words where it has one."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(eq=False)
class Request:
    """`known` are the prompt's tokens and those generated since; the first `computed` have their KV.

    `known` is an int64 array, which the tree takes as it is and whose slices compare in C. `order` counts first
    admissions: it stays, so a retracted request is the same age as before.
    """

    namespace: Hashable
    prompt: Sequence[int]
    max_tokens: int
    sampling: SamplingParams
    stop_ids: frozenset[int] = frozenset()
    grammar: GrammarState | None = None
    text: TextOutput | None = None
    retain_seconds: float = 0.0

    number: int = field(default_factory=lambda: next(_numbers), init=False)
    state: State = field(default=State.WAITING, init=False)
    finish: Finish | None = field(default=None, init=False)
    error: str | None = field(default=None, init=False)
    known: array[int] = field(init=False)
    computed: int = field(default=0, init=False)
    cached: int | None = field(default=None, init=False)
    """Prompt tokens that were not computed for this request, at its first admission."""
    submitted: int = field(default=0, init=False)
    """The scheduler's step at which it came."""
    order: int | None = field(default=None, init=False)
    lease: Lease | None = field(default=None, init=False, repr=False)
    drafter: Drafter | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.known = array("q", self.prompt)

    @property
    def uncomputed(self) -> int:
        return len(self.known) - self.computed

    @property
    def output(self) -> Sequence[int]:
        return self.known[len(self.prompt) :]

    @property
    def generated(self) -> int:
        return len(self.known) - len(self.prompt)

    @property
    def constrained(self) -> bool:
        """Whether a grammar decides which tokens may come next."""
        return self.grammar is not None and not self.grammar.finished

    @property
    def retracted(self) -> bool:
        """Whether it ran before and waits to run again."""
        return self.state is State.WAITING and self.order is not None

    @property
    def prefilling(self) -> bool:
        return self.computed < len(self.prompt)
