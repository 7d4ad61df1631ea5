"""The masks of the rows of one step: at the last known token, and behind each draft that the grammar allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Steps(Protocol):
    """What is needed of a `GrammarState`."""

    @property
    def finished(self) -> bool: ...

    def fill(self, out: Tensor) -> None: ...

    def accept(self, token: int) -> bool: ...

    def rollback(self, tokens: int) -> None: ...


def masks_along(state: Steps, drafts: Sequence[int], words: int) -> list[Tensor | None]:
    """One mask, int32 [words], for each of `1 + len(drafts)` rows; the state is left where it was.

    Behind a draft that the grammar refuses, or that ends the text, a row has no mask: it is never accepted, since the
    row before it can't yield that draft, or nothing follows.
    """
    masks: list[Tensor | None] = [_mask(state, words)]
    accepted = 0
    for draft in drafts:
        if not state.accept(draft):
            break
        accepted += 1
        if state.finished:
            break
        masks.append(_mask(state, words))
    if accepted:
        state.rollback(accepted)
    return masks + [None] * (1 + len(drafts) - len(masks))


def _mask(state: Steps, words: int) -> Tensor:
    mask = torch.full((words,), -1, dtype=torch.int32)
    state.fill(mask)
    return mask
