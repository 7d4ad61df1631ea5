"""The digest chain: every boundary of a conversation gets an id that stands for all that precedes it.

`d0 = H(tenant, model, options)`, one link for the tool block if there are tools, one for each message. Two
requests share a prefix exactly as far as their ids agree, so a look-up is a comparison of short strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from gateway.canonical.form import canonical_message, canonical_tool, encode
from gateway.dialects.base import Conversation

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Link:
    """One boundary: its id, and the canonical bytes up to it, a measure of how much a hit here is worth."""

    id: str
    size: int


@dataclass(frozen=True, slots=True)
class Chain:
    links: tuple[Link, ...]
    head: int
    """Index of the boundary after tools and system messages: what unrelated conversations may share."""
    anchors: tuple[int, ...]
    """Indices of the boundaries that are bound to a replica after a success, oldest first."""

    @property
    def size(self) -> int:
        return self.links[-1].size


def digest_chain(tenant: str, conversation: Conversation) -> Chain:
    """Pure. Raises RecursionError for JSON nested so deeply that it can't be written out again."""
    parent, size, links = b"", 0, []
    for kind, block in _blocks(tenant, conversation):
        parent = blake2b(parent + block, digest_size=DIGEST_BYTES, person=kind).digest()
        size += len(block)
        links.append(Link(parent.hex(), size))
    head = len(links) - 1 - len(conversation.messages) + conversation.head
    return Chain(tuple(links), head, _anchors(len(links) - 1, head, conversation.growing))


def _blocks(tenant: str, conversation: Conversation) -> Iterator[tuple[bytes, bytes]]:
    """The kind and canonical bytes of each link. Kinds keep a message from standing for a tool block."""
    yield b"root", encode([tenant, conversation.model, conversation.options])
    if conversation.tools:
        yield b"tools", b"\n".join(canonical_tool(tool) for tool in conversation.tools)
    for message in conversation.messages:
        yield b"message", canonical_message(message)


def _anchors(last: int, head: int, growing: bool) -> tuple[int, ...]:
    """The whole request and its shared head; where the last block may still grow, the one before it too."""
    wanted = {last, head} | ({last - 1} if growing else set())
    return tuple(sorted(index for index in wanted if index > 0))
