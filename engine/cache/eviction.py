"""In which order leaves leave the cache: a policy is one function from a node to a sort key, least first.

The order follows how likely a prefix is to be asked for again:

1. **Superseded**: a later turn of the same session went another way (an edited or trimmed history, reasoning that
   the template dropped, the choices of `n` > 1 that the client did not take). An append-only conversation never
   comes back to it, so it goes first, however fresh it is: recency is what misleads plain LRU here.
2. **Ordinary**: least recently used first. An agent's turns come in bursts, so recency is the best guess there is.
3. **Retained**: someone who knows more (a gateway that sees a tool run) asked for it. A class and not a bonus on
   recency, since a burst of other requests, each used later, is just what it shall survive. Among the retained
   the weight is the part of the time asked for that is left, which decays from 1 to 0: whoever asks for an hour
   doesn't outrank for an hour whoever asks for a minute, and no reservation grows old in front.

None is a lock. Retained leaves go too when nothing else is left, and what a request uses again is ordinary again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from engine.cache.node import Node

# (node, now) -> a key that sorts; ties are broken by the node's id
EvictionOrder = Callable[[Node, float], Any]


class Standing(IntEnum):
    """What goes first. See the module's docstring."""

    SUPERSEDED = 0
    ORDINARY = 1
    RETAINED = 2


def least_likely_first(node: Node, now: float) -> tuple[Standing, float, float]:
    """Superseded branches, then the least recently used, then the retained by the part of their time left."""
    if node.superseded:
        return (Standing.SUPERSEDED, 0.0, node.last_use)
    if node.retain_until > now:
        return (Standing.RETAINED, (node.retain_until - now) / node.retain_for, node.last_use)
    return (Standing.ORDINARY, 0.0, node.last_use)
