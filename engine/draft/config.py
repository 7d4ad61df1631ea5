"""How drafts are found and how many tokens are worth drafting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DraftConfig:
    """Lengths and capacities count tokens."""

    min_match: int = 3
    """Shorter repetitions are chance; also the length of the grams in the index."""
    max_match: int = 32
    """Longer matches aren't told apart: the most recent one is taken."""
    max_candidates: int = 16
    """Occurrences of the last gram that are compared, most recent first: the bound on a lookup's work."""
    max_draft: int = 16

    row_cost: float = 0.1
    """What one more drafted token adds to a decode step's time, as a share of a step without drafts."""
    decay: float = 0.9
    """How much of the measured acceptance is kept at each verified draft: 0.9 looks back about ten drafts."""
    probe_tokens: int = 2
    """Length of the draft that tests whether drafting pays again."""
    pause_tokens: int = 32
    """How many tokens a request generates without drafts when they stop paying; doubled by each failed probe."""
    max_pause_tokens: int = 512

    memory_tokens: int = 131_072
    """Capacity of the memory of earlier outputs, all namespaces together; about 120 bytes each."""

    def __post_init__(self) -> None:
        for name in ("min_match", "max_candidates", "max_draft", "probe_tokens", "pause_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"drafts: {name} is {getattr(self, name)}; it has to be at least 1")
        if self.max_match < self.min_match:
            raise ValueError(f"drafts: max_match {self.max_match} is less than min_match {self.min_match}")
        if self.max_pause_tokens < self.pause_tokens:
            raise ValueError("drafts: max_pause_tokens is less than pause_tokens")
        if self.memory_tokens < 0 or self.row_cost < 0:
            raise ValueError("drafts: memory_tokens and row_cost can't be negative")
        if not 0 < self.decay < 1:
            raise ValueError(f"drafts: decay is {self.decay}; it has to lie between 0 and 1")
