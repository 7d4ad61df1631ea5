"""The digest chain: every boundary of a conversation gets an id that stands for all that precedes it.

`d0 = H(tenant, model, options)`, one link for the tool block if there are tools, one for each message. Two
requests share a prefix exactly as far as their ids agree, so a look-up is a comparison of short strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gateway.canonical.form import canonical_message, canonical_tool, encode, encode_as_spelled
from gateway.dialects.base import Conversation, Json

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
    blocks: tuple[bytes, ...]
    """The canonical bytes behind each link; what the explainer compares."""
    first_message: int
    """Index of the first message's link, whether it exists or not."""
    spelling: int
    """Hash of the tools with their keys in the order in which they came. No id depends on it, but templates may. Holds
    within this process."""

    @property
    def size(self) -> int:
        return self.links[-1].size


def values_of(tenant: str, conversation: Conversation) -> list[Json]:
    """What the links stand for: the root, the tools if there are any, each message."""
    root = [tenant, conversation.model, conversation.options]
    return [root, *([conversation.tools] if conversation.tools else []), *conversation.messages]


def digest_chain(tenant: str, conversation: Conversation) -> Chain:
    """Pure. Raises RecursionError for JSON nested so deeply that it can't be written out again."""
    return extend_chain(None, 0, values_of(tenant, conversation), conversation)


def extend_chain(known: Chain | None, shared: int, values: Sequence[Json], conversation: Conversation) -> Chain:
    """The chain of all `values`, of which the first `shared` are those of the `known` one."""
    links = list(known.links[:shared]) if known else []
    blocks = list(known.blocks[:shared]) if known else []
    parent, size = (bytes.fromhex(links[-1].id), links[-1].size) if links else (b"", 0)
    first = len(values) - len(conversation.messages)
    for index in range(shared, len(values)):
        kind, block = _block(values[index], index, first)
        parent = blake2b(parent + block, digest_size=DIGEST_BYTES, person=kind).digest()
        size += len(block)
        links.append(Link(parent.hex(), size))
        blocks.append(block)
    same_tools = known is not None and shared >= first == known.first_message
    spelling = known.spelling if known and same_tools else hash(encode_as_spelled(conversation.tools))
    head = first - 1 + conversation.head
    return Chain(
        tuple(links), head, _anchors(len(links) - 1, head, conversation.growing), tuple(blocks), first, spelling
    )


def _block(value: Json, index: int, first: int) -> tuple[bytes, bytes]:
    """Kind and canonical bytes of what stands at `index`, where messages begin at `first`. Kinds keep a message from
    standing for a tool block."""
    if index >= first:
        return b"message", canonical_message(value)
    if index:
        return b"tools", b"\n".join(map(canonical_tool, value))
    return b"root", encode(value)


def _anchors(last: int, head: int, growing: bool) -> tuple[int, ...]:
    """The whole request and its shared head. Plain text has no turns, it may go on or part anywhere: so ever sparser
    boundaries between the two as well, the first of them before the last block, which may still grow."""
    wanted = {last, head}
    if growing:
        wanted |= {last - 2**step for step in range((last - head).bit_length()) if last - 2**step > head}
    return tuple(sorted(index for index in wanted if index > 0))
