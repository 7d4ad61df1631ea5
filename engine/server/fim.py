"""Fill in the middle: a prompt and a suffix in the layout that a code model was trained on.

Models learn it with tokens of their own, which stand in the vocabulary under known names; a model without them can't
do it. The layouts are those of the models' own documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from engine.prompt.tokenizer import Tokenizer


class Slot(Enum):
    PREFIX = "prefix"
    SUFFIX = "suffix"


Layout = tuple[str | Slot, ...]

LAYOUTS: tuple[Layout, ...] = (
    ("<|fim_prefix|>", Slot.PREFIX, "<|fim_suffix|>", Slot.SUFFIX, "<|fim_middle|>"),  # Qwen Coder, CodeGemma
    ("<fim_prefix>", Slot.PREFIX, "<fim_suffix>", Slot.SUFFIX, "<fim_middle>"),  # StarCoder, Granite
    ("<|code_prefix|>", Slot.PREFIX, "<|code_suffix|>", Slot.SUFFIX, "<|code_middle|>"),  # GLM
    ("<｜fim▁begin｜>", Slot.PREFIX, "<｜fim▁hole｜>", Slot.SUFFIX, "<｜fim▁end｜>"),  # DeepSeek Coder
    ("▁<PRE>", Slot.PREFIX, "▁<SUF>", Slot.SUFFIX, "▁<MID>"),  # Code Llama
    ("[SUFFIX]", Slot.SUFFIX, "[PREFIX]", Slot.PREFIX),  # Codestral
)

# What a model writes when the middle is done and it goes on to something else.
_ENDINGS = ("<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<|file_sep|>", "<file_sep>", "<|endoftext|>", "▁<EOT>")


@dataclass(frozen=True)
class FillInMiddle:
    """A layout with its markers as token ids, and the tokens that end a middle."""

    layout: tuple[int | Slot, ...]
    stop_ids: frozenset[int]

    def ids(self, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:
        """The whole prompt."""
        ids: list[int] = []
        for part in self.layout:
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += prefix if part is Slot.PREFIX else suffix
        return ids


def fill_in_middle(tokenizer: Tokenizer) -> FillInMiddle | None:
    """The model's own way of it; None where its vocabulary has no tokens for it."""
    for layout in LAYOUTS:
        markers = [_id(tokenizer, part) if isinstance(part, str) else part for part in layout]
        known = [marker for marker in markers if marker is not None]
        if len(known) == len(layout):
            endings = [_id(tokenizer, name) for name in _ENDINGS]
            stops = [marker for marker in (*known, *endings) if isinstance(marker, int)]
            return FillInMiddle(tuple(known), frozenset(stops))
    return None


def _id(tokenizer: Tokenizer, name: str) -> int | None:
    found: int | None = tokenizer.raw.token_to_id(name)
    return found
