"""The explainer's core: how a request stands to an earlier one of its session, and what broke its prefix.

A request that extends the earlier one finds all of it in the cache. One that repeats it or goes on from an earlier
point of it finds all that it can use. What is left is a prefix break: the client sent its history otherwise than
before, and the engine computes again whatever lies behind the first difference.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from gateway.canonical.chain import Chain
from gateway.canonical.explain_classes import BreakClass, classify
from gateway.canonical.explain_locate import Difference, Part, Parts, agreeing, locate, parts_of, role_of
from gateway.canonical.explain_text import Excerpt, alike, common_length, common_tail, excerpt


class Turn(StrEnum):
    """How a request stands to what is known of its session."""

    FIRST = "first"
    """Nothing is known, or nothing that it has to do with: another conversation under the same session key."""
    EXTENDED = "extended"
    REGENERATED = "regenerated"
    """The same request again."""
    BRANCHED = "branched"
    """It goes on from an earlier point: an answer tried again, a question put otherwise, a parallel attempt."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """The first difference of a request from the earlier one that it should have begun with."""

    kind: BreakClass
    part: Part
    index: int
    """Of the message or the tool."""
    role: str
    path: str
    """ASCII, bounded, and without a word of what was said."""
    offset: int
    """Where the first character that differs begins, in bytes of the field's text."""
    lost_share: float
    """Of the old request's tokens, those computed again: what follows the break, on the side with less of it."""
    excerpt: Excerpt | None
    """Contents. Nobody but the tenant may see it, and only where the operator allows it; None elsewhere."""


@dataclass(frozen=True, slots=True)
class Comparison:
    turn: Turn
    shared: int
    """Bytes of the canonical form that both begin with."""
    broken: PrefixBreak | None = None


_MAY_BRANCH = frozenset(
    {
        BreakClass.HISTORY_EDITED,
        BreakClass.ARGUMENTS_REWRITTEN,
        BreakClass.REASONING_CHANGED,
        BreakClass.TOOL_RESULT_CHANGED,
    }
)
_MAX_PATH = 160


def compare(old: Chain, new: Chain) -> Comparison:
    """Pure. Cheap where the new one extends or repeats the old one, which is nearly always."""
    if extends(old, new):
        same = len(old.links) == len(new.links)
        return Comparison(Turn.REGENERATED if same else Turn.EXTENDED, old.size)
    shared = shared_links(old, new)
    if shared == len(new.links):
        return Comparison(Turn.BRANCHED, new.size)
    before, after = parts_of(old), parts_of(new)
    try:
        if _prompt_grew(before, after):
            return Comparison(Turn.EXTENDED, old.size)
        return _explain(old, new, shared, before, after)
    except RecursionError:  # JSON nested so deeply that it can be written, but not read from here
        return Comparison(Turn.FIRST, _size(new, shared))


def extends(old: Chain, new: Chain) -> bool:
    last = len(old.links) - 1
    return last < len(new.links) and old.links[last].id == new.links[last].id


def shared_links(old: Chain, new: Chain) -> int:
    """How many leading boundaries are the same; an id stands for all before it, so halving finds the last one."""
    low, high = 0, min(len(old.links), len(new.links))
    while low < high:
        middle = (low + high + 1) // 2
        if old.links[middle - 1].id == new.links[middle - 1].id:
            low = middle
        else:
            high = middle - 1
    return low


def kinship(old: Parts, new: Parts, difference: Difference | None = None) -> int:
    """Bytes of tools and messages that both have, wherever they stand, and what a changed text has kept."""
    common = Counter(old.tools + old.messages) & Counter(new.tools + new.messages)
    kept = 0
    if difference and difference.part is not Part.ROOT:
        at = difference.at
        kept = at + common_tail(difference.old, difference.new, at)
    return kept + sum(len(block) * count for block, count in common.items())


def _explain(old: Chain, new: Chain, shared: int, before: Parts, after: Parts) -> Comparison:
    difference = locate(before, after)
    kind = classify(before, after, difference)
    block = common_length(old.blocks[shared], new.blocks[shared]) if shared else 0
    size = _size(new, shared) + block
    if not _related(before, after, difference, kind):
        return Comparison(Turn.FIRST, size)
    if kind in _MAY_BRANCH and _is_branch(before, after, difference):
        return Comparison(Turn.BRANCHED, size)
    lost = min(old.size, new.size) - size
    broken = PrefixBreak(
        kind,
        difference.part,
        difference.index,
        difference.role,
        difference.path[:_MAX_PATH],
        difference.offset,
        max(0.0, lost / old.size),
        excerpt(difference.old, difference.new, difference.at),
    )
    return Comparison(Turn.BROKEN, size, broken)


def _related(old: Parts, new: Parts, difference: Difference, kind: BreakClass) -> bool:
    """Whether both are of one conversation. Clients send other requests under the same key (a title, a new chat)."""
    head = min(old.head, new.head)
    if difference.part is not Part.MESSAGE or difference.index < head:
        smaller = min(sum(map(len, parts.tools + parts.messages)) for parts in (old, new))
        return 2 * kinship(old, new, difference) >= smaller
    if difference.index > head or kind is not BreakClass.HISTORY_EDITED:
        return True
    return alike(difference.old, difference.new) or not set(old.messages[head:]).isdisjoint(new.messages[head:])


def _is_branch(old: Parts, new: Parts, difference: Difference) -> bool:
    """Whether what differs is new: another question after the last answer, or another last answer to the same one."""
    index = difference.index
    if difference.part is not Part.MESSAGE or index < min(old.head, new.head):
        return False
    answers = [at for at in range(index, len(new.messages)) if role_of(json.loads(new.messages[at])) == "assistant"]
    if not answers:
        return True
    if answers[0] != index or role_of(json.loads(old.messages[index])) != "assistant":
        return False
    follows = slice(index + 1, index + 2)
    return len(answers) == 1 or old.messages[follows] != new.messages[follows]


def _prompt_grew(old: Parts, new: Parts) -> bool:
    """A plain completion: the old prompt's last piece is the beginning of the new one's at that place."""
    last = len(old.messages) - 1
    if last < 0 or old.root != new.root or old.tools != new.tools or agreeing(old.messages, new.messages) != last:
        return False
    if not old.messages[last].startswith((b'"', b"[")) or len(new.messages) <= last:
        return False
    piece, longer = json.loads(old.messages[last]), json.loads(new.messages[last])
    if isinstance(piece, str) and isinstance(longer, str):
        return longer.startswith(piece)
    return isinstance(piece, list) and isinstance(longer, list) and longer[: len(piece)] == piece


def _size(chain: Chain, links: int) -> int:
    return chain.links[links - 1].size if links else 0
