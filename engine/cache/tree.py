"""The radix tree: which prefixes are in KV memory, and in which slots.

It owns nodes, their lease counts and the set of leaves that may go. It never allocates or frees slots:
`insert` is given them and `evict` returns them. Keys are token ids in whole pages; each namespace has its own
root, so prefixes of two namespaces can't meet.

On a split the new node becomes the prefix, so a handle to the deep node stays valid:

    parent ── node[abcdef]        parent ── new[abc] ── node[def]

Not safe for threads: the engine thread owns it.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from engine.cache.eviction import EvictionOrder
from engine.cache.extents import Extent, cut, merge
from engine.cache.keys import as_key, common
from engine.cache.node import Node, Root


class Match(NamedTuple):
    """`node` ends exactly after the `length` tokens that matched; a root if none did."""

    node: Node
    length: int


class Inserted(NamedTuple):
    """`node` ends exactly after the inserted ids. The first `existing` of the given slots were not needed."""

    node: Node
    existing: int


class RadixTree:
    """Prefixes in whole pages of `page_size` tokens. `cached` and `leased` count tokens, incrementally."""

    def __init__(self, page_size: int, order: EvictionOrder, clock: Callable[[], float]) -> None:
        self.page_size = page_size
        self.roots: dict[Hashable, Root] = {}
        self.leaves: set[Node] = set()  # neither leased nor with children: what may be evicted next
        self.cached = 0
        self.leased = 0
        self.nodes = 0
        self._order = order
        self._clock = clock
        self._ids = itertools.count(1)

    @property
    def evictable(self) -> int:
        """Tokens that `evict` can give: all that no lease passes through."""
        return self.cached - self.leased

    def peek(self, namespace: Hashable, ids: Sequence[int], limit: int) -> int:
        """How many of the first `limit` tokens are cached. Changes nothing."""
        root = self.roots.get(namespace)
        if root is None:
            return 0
        node, into = self._walk(root, as_key(ids), limit)
        return node.end - len(node) + into

    def match(self, namespace: Hashable, ids: Sequence[int], limit: int | None = None) -> Match:
        """The longest cached prefix of `ids`, in whole pages, of at most `limit` tokens. It counts as a use.

        An unknown namespace gets a root, which stays until the last lease or node below it has gone.
        """
        if namespace not in self.roots:
            self.roots[namespace] = Root(next(self._ids), namespace)
        node = self._find(self.roots[namespace], as_key(ids), len(ids) if limit is None else limit)
        self.touch(node)
        return Match(node, node.end)

    def insert(self, ids: Sequence[int], extents: list[Extent], below: Node) -> Inserted:
        """Makes the whole pages of `ids` a cached prefix.

        `ids` begin with the tokens of `below`, which the caller holds; `extents` are the slots of those after
        it. The tree owns the slots from then on, except the first `existing`: another request was first with
        those tokens, its slots count, and the caller must use them and free its own.
        """
        key = as_key(ids)
        end = len(key) // self.page_size * self.page_size
        node = self._find(below, key, end)
        existing = node.end - below.end
        if node.end < end:
            fresh = cut(cut(extents, existing)[1], end - node.end)[0]
            node = self._append(node, key[node.end : end], fresh, holder=below)
        self.touch(node)
        return Inserted(node, existing)

    def lease(self, node: Node, held: Node | None = None) -> None:
        """Keeps the path to `node` from eviction; a lease on its ancestor `held` moves down to `node`."""
        for step in self._upwards(node):
            if step is held:
                break
            step.leases += 1
            if step.leases == 1:
                self.leased += len(step)
                self.leaves.discard(step)

    def unlease(self, node: Node) -> None:
        """Ends one lease on `node`."""
        for step in self._upwards(node):
            if step.leases < 1:
                raise ValueError(f"{step} was given back more often than it was leased")
            step.leases -= 1
            if step.leases == 0:
                self.leased -= len(step)
                self._settle(step)

    def touch(self, node: Node) -> None:
        """The path to `node` is in use now, so nothing on it is superseded."""
        now = self._clock()
        for step in self._upwards(node):
            step.last_use, step.superseded = now, False

    def retain(self, namespace: Hashable, ids: Sequence[int], seconds: float) -> int:
        """The cached part of `ids` goes last for `seconds` from now. Returns its number of tokens.

        Where a later end is asked for already, that one counts. Asking also says that nothing of it is superseded.
        """
        if namespace not in self.roots:
            return 0
        until = self._clock() + seconds
        node = self._find(self.roots[namespace], as_key(ids), len(ids))
        for step in self._upwards(node):
            step.superseded = False
            if step.retain_until < until:
                step.retain_until, step.retain_for = until, seconds
        return node.end

    def release(self, namespace: Hashable, ids: Sequence[int]) -> int:
        """Ends the retention of the cached part of `ids`, except where another, longer prefix is retained."""
        if namespace not in self.roots:
            return 0
        node = self._find(self.roots[namespace], as_key(ids), len(ids))
        for step in self._upwards(node):
            below = ((child.retain_until, child.retain_for) for child in step.children.values())
            step.retain_until, step.retain_for = max(below, default=(0.0, 0.0))
        return node.end

    def supersede(self, namespace: Hashable, ids: Sequence[int], kept: int) -> int:
        """The path of `ids` won't be asked for again behind its first `kept` tokens: it goes first from now on.

        Left alone is what a lease holds, and what leads to a branch that isn't superseded: others use that.
        Returns the tokens that this marked.
        """
        if namespace not in self.roots:
            return 0
        key, page = as_key(ids), self.page_size
        stay = self._find(self.roots[namespace], key, kept // page * page)
        node, marked = self._find(stay, key, len(key)), 0
        while node is not stay and not node.leases and all(child.superseded for child in node.children.values()):
            marked += 0 if node.superseded else len(node)
            node.superseded = True
            assert node.parent is not None
            node = node.parent
        return marked

    def evict(self, wanted: int, leaves: Callable[[Node, int], None] | None = None) -> list[Extent]:
        """At least `wanted` slots, or all that no lease holds if those are fewer, in eviction order.

        A leaf loses only as many pages of its end as are wanted, so its beginning can still be hit. Before that
        `leaves(leaf, keep)` is called: all but the first `keep` tokens of `leaf` are about to leave.
        """
        now = self._clock()
        heap = [(self._order(leaf, now), leaf.id, leaf) for leaf in self.leaves]
        heapq.heapify(heap)
        target, freed = self.cached - wanted, []
        while heap and self.cached > target:
            leaf = heapq.heappop(heap)[2]
            parent = leaf.parent
            keep = max(0, len(leaf) - (self.cached - target)) // self.page_size * self.page_size
            if leaves is not None:
                leaves(leaf, keep)
            freed += self._shorten(leaf, keep)
            if parent is not None and parent in self.leaves:
                heapq.heappush(heap, (self._order(parent, now), parent.id, parent))
        return freed

    def path(self, node: Node) -> list[Node]:
        """The nodes with tokens from the root to `node`."""
        return [step for step in self._upwards(node) if step.parent][::-1]

    def spans(self, node: Node) -> list[Extent]:
        """The slots of all tokens from the root to the end of `node`, neighbours merged."""
        return merge(extent for step in self.path(node) for extent in step.extents)

    def ids(self, node: Node) -> array[int]:
        """All tokens from the root to the end of `node`."""
        whole = array("q")
        for step in self.path(node):
            whole.extend(step.key)
        return whole

    def namespace(self, node: Node) -> Hashable:
        *_, root = self._upwards(node)
        assert isinstance(root, Root)
        return root.namespace

    def _walk(self, node: Node, ids: array[int], end: int) -> tuple[Node, int]:
        """The deepest node that `ids[:end]` reach from `node`, and how many of its tokens they match."""
        while node.end + self.page_size <= end:
            child = node.children.get(self._page(ids, node.end))
            if child is None:
                break
            same = common(child.key, ids, node.end, end) // self.page_size * self.page_size
            if same < len(child):
                return child, same
            node = child
        return node, len(node)

    def _find(self, start: Node, ids: array[int], end: int) -> Node:
        """The node at which the cached part of `ids[:end]` ends; splits one if need be."""
        node, into = self._walk(start, ids, end)
        return self._split(node, into) if into < len(node) else node

    def _split(self, node: Node, at: int) -> Node:
        parent = node.parent
        assert parent is not None
        head, tail = cut(node.extents, at)
        prefix = Node(next(self._ids), node.key[:at], head, parent)
        prefix.stand_like(node)
        parent.children[self._page(prefix.key, 0)] = prefix
        node.key, node.extents, node.parent = node.key[at:], tail, prefix
        prefix.children[self._page(node.key, 0)] = node
        self.nodes += 1
        return prefix

    def _append(self, node: Node, key: array[int], extents: list[Extent], holder: Node) -> Node:
        """Puts `key` below `node`: into a new leaf, or into `node` itself where nobody else could notice.

        So a conversation that nobody shares stays one node, however many chunks and turns it came in.
        """
        self.cached += len(key)
        only_the_caller = node.leases <= (1 if node is holder else 0)
        if node.parent and not node.children and only_the_caller:
            node.key.extend(key)
            node.extents = merge([*node.extents, *extents])
            node.end += len(key)
            self.leased += len(key) if node.leases else 0
            return node
        leaf = Node(next(self._ids), key, merge(extents), node)
        node.children[self._page(key, 0)] = leaf
        self.nodes += 1
        self.leaves.discard(node)
        self.leaves.add(leaf)
        return leaf

    def _shorten(self, leaf: Node, keep: int) -> list[Extent]:
        """Drops all but the first `keep` tokens of an evictable leaf; the leaf, if none remain."""
        kept, freed = cut(leaf.extents, keep)
        self.cached -= len(leaf) - keep
        if keep:
            leaf.end -= len(leaf) - keep
            leaf.key, leaf.extents = leaf.key[:keep], kept
        else:
            self._remove(leaf)
        return freed

    def _remove(self, leaf: Node) -> None:
        parent = leaf.parent
        assert parent is not None
        del parent.children[self._page(leaf.key, 0)]
        leaf.parent = None
        self.leaves.discard(leaf)
        self.nodes -= 1
        self._settle(parent)

    def _settle(self, node: Node) -> None:
        """After `node` lost a lease or a child: it may have become evictable, or its namespace empty."""
        if node.leases or node.children:
            return
        if isinstance(node, Root):
            del self.roots[node.namespace]
        else:
            self.leaves.add(node)

    def _page(self, ids: array[int], at: int) -> bytes:
        return ids[at : at + self.page_size].tobytes()

    @staticmethod
    def _upwards(node: Node) -> Iterator[Node]:
        """`node` and its ancestors. The root is last."""
        step: Node | None = node
        while step is not None:
            yield step
            step = step.parent
