"""One node of the radix tree: a run of tokens, and the slots where their keys and values lie."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

from engine.cache.extents import Extent


class Node:
    """Tokens `[end - len(key), end)` of every prefix that passes through this node.

    `id` is unique for the life of the tree. `leases` counts the leases held on this node or below it, so a
    child never has more than its parent. `last_use` and `retain_until` are times of the tree's clock, and
    `retain_for` the seconds for which the retention was asked. `superseded`: its session went another way;
    then all its children are superseded too, and the next use ends it.
    """

    __slots__ = (
        "children",
        "end",
        "extents",
        "id",
        "key",
        "last_use",
        "leases",
        "parent",
        "retain_for",
        "retain_until",
        "superseded",
    )

    def __init__(self, id: int, key: array[int], extents: list[Extent], parent: Node | None) -> None:
        self.id = id
        self.key = key
        self.extents = extents
        self.parent = parent
        self.children: dict[bytes, Node] = {}
        self.end: int = len(key) + (parent.end if parent else 0)
        self.leases = 0
        self.last_use = 0.0
        self.retain_until = 0.0
        self.retain_for = 0.0
        self.superseded = False

    def stand_like(self, other: Node) -> None:
        """The half of a split that is new inherits whatever decides how long it stays."""
        self.leases, self.last_use, self.superseded = other.leases, other.last_use, other.superseded
        self.retain_until, self.retain_for = other.retain_until, other.retain_for

    def __len__(self) -> int:
        return len(self.key)

    def __bool__(self) -> bool:
        return True  # a root has no tokens, yet it is a node

    def __repr__(self) -> str:
        return f"<node {self.id}: tokens {self.end - len(self)}..{self.end}, leases {self.leases}>"


class Root(Node):
    """Where the prefixes of one namespace begin. It holds no tokens."""

    __slots__ = ("namespace",)

    def __init__(self, id: int, namespace: Hashable) -> None:
        super().__init__(id, array("q"), [], None)
        self.namespace = namespace
