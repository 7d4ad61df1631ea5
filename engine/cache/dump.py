"""The tree for people: bounded, as JSON, without token ids (they are what users wrote)."""

from __future__ import annotations

from typing import Any

from engine.cache.node import Node
from engine.cache.tree import RadixTree


def dump(tree: RadixTree, now: float, depth: int, nodes: int) -> dict[str, Any]:
    """Level by level, so that a small budget of nodes shows the trunk; `hidden` counts the children left out.

    A node: `node` (its id), `tokens` (its own), `end` (from the root), `leases`, `idle` and `retained`
    (seconds), `superseded`, `children`. A namespace stands above its first nodes.
    """
    level: list[tuple[Node, dict[str, Any]]] = []
    namespaces = []
    for root in tree.roots.values():
        entry: dict[str, Any] = {"namespace": str(root.namespace), "leases": root.leases, "children": []}
        namespaces.append(entry)
        level.append((root, entry))
    for _ in range(depth):
        below: list[tuple[Node, dict[str, Any]]] = []
        for node, entry in level:
            for child in sorted(node.children.values(), key=lambda c: (-c.last_use, c.id))[:nodes]:
                entry["children"].append(_describe(child, now))
                below.append((child, entry["children"][-1]))
                nodes -= 1
        _count_hidden(level)
        level = below
    _count_hidden(level)
    return {"nodes": tree.nodes, "tokens": tree.cached, "leased": tree.leased, "namespaces": namespaces}


def _describe(node: Node, now: float) -> dict[str, Any]:
    return {
        "node": node.id,
        "tokens": len(node),
        "end": node.end,
        "leases": node.leases,
        "idle": round(max(0.0, now - node.last_use), 3),
        "retained": round(max(0.0, node.retain_until - now), 3),
        "superseded": node.superseded,
        "children": [],
    }


def _count_hidden(level: list[tuple[Node, dict[str, Any]]]) -> None:
    for node, entry in level:
        entry["hidden"] = len(node.children) - len(entry["children"])
