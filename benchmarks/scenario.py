"""The scenario: several clients, four turns each, with texts of a given number of tokens.

The system prompt is the same for all clients, everything after it differs; sizes are those of a coding agent's loop
divided by `scale`. Texts are cut by the measured model's own tokenizer, so that every server gets the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from benchmarks import corpus

SYSTEM_TOKENS = 3200
CHUNK = 64
"""Paragraphs that are tokenized together until there are enough."""

Paragraphs = Callable[[Random], Iterator[str]]
TURNS: Sequence[tuple[Paragraphs, int]] = (
    (corpus.tasks, 512),
    (corpus.compiler_errors, 1400),
    (corpus.code, 850),
    (corpus.pytest_output, 320),
)


class TextTokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True)
class Scenario:
    """Tokens are those generated in a turn; `scale` divides the prompts."""

    clients: int = 4
    tokens: int = 64
    scale: float = 1.0
    seed: int = 0

    @property
    def system_tokens(self) -> int:
        return self._scaled(SYSTEM_TOKENS)

    @property
    def turn_tokens(self) -> tuple[int, ...]:
        """What each turn adds to the prompt."""
        return tuple(self._scaled(tokens) for _, tokens in TURNS)

    def _scaled(self, tokens: int) -> int:
        return max(1, round(tokens / self.scale))


@dataclass(frozen=True)
class Conversation:
    """What one client says: the system prompt, and a text for each turn."""

    system: str
    turns: tuple[str, ...]


def conversations(scenario: Scenario, tokenizer: TextTokenizer) -> list[Conversation]:
    """One conversation for each client."""
    system = cut(corpus.rules(Random(f"{scenario.seed}/system")), scenario.system_tokens, tokenizer)
    return [_conversation(system, number, scenario, tokenizer) for number in range(scenario.clients)]


def cut(paragraphs: Iterator[str], tokens: int, tokenizer: TextTokenizer) -> str:
    """The first `tokens` tokens of the paragraphs."""
    ids: list[int] = []
    while len(ids) < tokens:
        ids += tokenizer.encode("".join(f"{next(paragraphs)}\n" for _ in range(CHUNK)))
    return tokenizer.decode(ids[:tokens])


def load_text_tokenizer(model: Path) -> TextTokenizer:
    """The model's tokenizer. The texts hold nothing that a chat template would take for its own."""
    from engine.prompt.tokenizer import load_tokenizer
    from engine.weights.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(model)
    return load_tokenizer(checkpoint.metadata, checkpoint.folder)


def _conversation(system: str, number: int, scenario: Scenario, tokenizer: TextTokenizer) -> Conversation:
    source = Random(f"{scenario.seed}/{number}")
    kinds = (paragraphs for paragraphs, _ in TURNS)
    turns = (cut(kind(source), tokens, tokenizer) for kind, tokens in zip(kinds, scenario.turn_tokens, strict=True))
    return Conversation(system, tuple(turns))
