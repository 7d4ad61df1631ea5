"""How much of a first message, and of a start, the knowledge of a repository may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

CHARACTERS_PER_TOKEN = 4
"""An estimate; the tokenizer is the server's."""
_INSTRUCTIONS_PART, _MAP_PART = 8, 16
"""At most this part of a model's context."""


@dataclass(frozen=True)
class Budget:
    instruction_bytes: int = 16_384
    """Of all AGENTS.md files together."""
    map_tokens: int = 2_048
    dirty_files: int = 20
    """Lines of git status."""
    source_bytes: int = 16 << 20
    """Of source that is parsed for the map. The bound that counts: it gives the same map every time."""
    seconds: float = 8.0
    """For parsing, where a machine is too slow for `source_bytes`."""

    @classmethod
    def of(cls, context: int | None) -> Self:
        """One that leaves room for the work in `context` tokens (None: not known)."""
        whole = cls()
        if context is None:
            return whole
        return cls(
            instruction_bytes=min(whole.instruction_bytes, context * CHARACTERS_PER_TOKEN // _INSTRUCTIONS_PART),
            map_tokens=min(whole.map_tokens, context // _MAP_PART),
        )
