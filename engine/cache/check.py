"""The cache's books, recomputed from scratch: slow and exhaustive, for tests and the engine's debug mode.

Each check raises AssertionError and names what differs. They are plain `raise`, so `python -O` keeps them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.cache.extents import Extent, total
from engine.cache.node import Node, Root
from engine.cache.pool import Pool
from engine.cache.tree import RadixTree

if TYPE_CHECKING:
    from engine.cache.manager import KVCache


def check_cache(cache: KVCache) -> None:
    """Pool, tree and leases, each by itself and against one another: every slot has exactly one owner."""
    check_pool(cache.pool)
    check_tree(cache.radix)
    private = [extent for lease in cache.leases for extent in lease._private]
    _same("private slots", cache.private, total(private))
    owners: Counter[int] = Counter()
    for extents in (cache.pool.runs(), private, [e for node in all_nodes(cache.radix) for e in node.extents]):
        for start, length in extents:
            owners.update(range(start, start + length))
    wrong = [slot for slot in range(cache.capacity) if owners[slot] != 1]
    _same("slots without exactly one owner", wrong, [])
    _check_leases(cache)


def check_pool(pool: Pool) -> None:
    """Free runs are whole pages, in order, apart from each other, and add up."""
    runs = pool.runs()
    _same("free slots", pool.free_slots, total(runs))
    _same("free runs by length", pool._by_length, sorted((run.length, run.start) for run in runs))
    edge = -1
    for run in runs:
        _true(edge < run.start and run.stop <= pool.capacity, f"free {run} overlaps, touches or leaves")
        _true(_whole_pages(run, pool.page_size), f"free {run} isn't whole pages")
        edge = run.stop


def check_tree(tree: RadixTree) -> None:
    """Links, keys, extents and lease counts of every node, and the tree's totals."""
    nodes = all_nodes(tree)
    for namespace, root in tree.roots.items():
        _same("namespace of a root", root.namespace, namespace)
    for node in [*tree.roots.values(), *nodes]:
        _check_node(tree, node)
    _same("cached tokens", tree.cached, sum(len(node) for node in nodes))
    _same("leased tokens", tree.leased, sum(len(node) for node in nodes if node.leases))
    _same("nodes", tree.nodes, len(nodes))
    _same("evictable leaves", tree.leaves, {n for n in nodes if not n.leases and not n.children})


def all_nodes(tree: RadixTree) -> list[Node]:
    """Every node but the roots."""
    found: list[Node] = [child for root in tree.roots.values() for child in root.children.values()]
    for node in found:
        found.extend(node.children.values())
    return found


def _check_node(tree: RadixTree, node: Node) -> None:
    page = tree.page_size
    _same(f"slots of {node}", total(node.extents), len(node))
    _true(all(_whole_pages(e, page) for e in node.extents), f"{node} has extents that aren't whole pages")
    _true(isinstance(node, Root) or len(node) > 0, f"{node} is empty")
    _true(node.leases >= sum(child.leases for child in node.children.values()), f"{node} misses leases")
    for first, child in node.children.items():
        _true(child.parent is node, f"{child} has another parent")
        _same(f"first page of {child}", child.key[:page].tobytes(), first)
        _same(f"end of {child}", child.end, node.end + len(child))
        _true(child.last_use <= node.last_use, f"{child} was used later than its parent")
        _true(child.superseded or not node.superseded, f"{node} is superseded, but not {child} below it")


def _check_leases(cache: KVCache) -> None:
    held: Counter[Node] = Counter()
    for lease in cache.leases:
        _true(not lease.closed, "a closed lease is still listed")
        end, page = lease.node.end, cache.page_size
        _same("allocated slots of a lease", lease.allocated, end + total(lease._private))
        _true(end <= lease.committed <= lease.allocated, f"{lease.committed} committed of {lease.allocated}")
        _same("shared slots of a lease", lease._shared, cache.radix.spans(lease.node))
        _true(all(_whole_pages(e, page) for e in lease._private), "private slots aren't whole pages")
        held.update(cache.radix._upwards(lease.node))
    for node in [*cache.radix.roots.values(), *all_nodes(cache.radix)]:
        _same(f"leases of {node}", node.leases, held[node])
    _true(
        all(root is cache.radix.roots.get(root.namespace) for root in held if isinstance(root, Root)),
        "lost root",
    )


def _whole_pages(extent: Extent, page: int) -> bool:
    return extent.length > 0 and extent.start % page == 0 and extent.length % page == 0


def _same(what: str, counted: object, found: object) -> None:
    if counted != found:
        raise AssertionError(f"{what}: {counted} by the books, {found} when recomputed")


def _true(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
