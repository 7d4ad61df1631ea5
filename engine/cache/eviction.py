"""In which order leaves leave the cache: a policy is one function from a node to a sort key, least first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.cache.node import Node

# (node, now) -> a key that sorts; ties are broken by the node's id
EvictionOrder = Callable[[Node, float], Any]


def retained_last(node: Node, now: float) -> tuple[bool, float]:
    """The least recently used first; what is retained only after all that isn't. Never a lock."""
    return (node.retain_until > now, node.last_use)
