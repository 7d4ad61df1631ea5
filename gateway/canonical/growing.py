"""Digest chains of conversations that grow: of a turn that extends an earlier one only what is new is hashed.

A memo of `digest_chain` and nothing else: the same chain comes out with and without it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from gateway.canonical.chain import Chain, digest_chain, extend_chain, values_of
from gateway.dialects.base import Conversation

MAX_BYTES = 48 * 2**20


@dataclass(frozen=True, slots=True)
class _Known:
    spelled: Sequence[bytes]
    """The parts as they came, which is quicker to compare than to hash."""
    chain: Chain
    size: int
    """What it holds, about: each part as it came and in its canonical form."""


class GrowingChains:
    """The newest conversation behind each first message, up to so many bytes in all. Branches from it find what they
    share with the last one."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = 0
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def chain(self, tenant: str, conversation: Conversation) -> Chain:
        """As `digest_chain`."""
        values = values_of(tenant, conversation)
        try:
            spelled = list(map(orjson.dumps, values))
        except TypeError:  # what the quick writer can't write, the canonical form has a slower way for
            return digest_chain(tenant, conversation)
        opener = len(values) - len(conversation.messages) + conversation.head
        key = b"".join((spelled[0], *spelled[opener : opener + 1]))
        known = self._known.get(key)
        shared = _shared(known.spelled, spelled) if known else 0
        chain = extend_chain(known.chain if known else None, shared, values, conversation)
        self._keep(key, _Known(spelled, chain, sum(map(len, spelled)) + chain.size))
        return chain

    def _keep(self, key: bytes, known: _Known) -> None:
        old = self._known.pop(key, None)
        self._held += known.size - (old.size if old else 0)
        self._known[key] = known
        while self._held > self._max_bytes:
            self._held -= self._known.popitem(last=False)[1].size


def _shared(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many parts two conversations begin with in common."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
