from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.check import all_nodes, check_tree
from engine.cache.eviction import least_likely_first
from engine.cache.extents import Extent, total
from engine.cache.keys import common
from engine.cache.tree import RadixTree


@pytest.fixture
def tree(clock):
    return RadixTree(1, least_likely_first, clock)


def put(tree, ids, slot, namespace="ns"):
    """Inserts `ids` in the slots from `slot` on, as a short request would."""
    node, length = tree.match(namespace, ids)
    tree.lease(node)
    inserted = tree.insert(ids, [Extent(slot + length, len(ids) - length)], node)
    tree.unlease(node)
    return inserted


@given(st.lists(st.integers(0, 1), max_size=300), st.lists(st.integers(0, 1), max_size=300), st.data())
def test_common_is_the_length_of_the_common_prefix(a, b, data):
    shared = data.draw(st.integers(0, len(a)))
    at = data.draw(st.integers(0, 3))
    ids = array("q", [7] * at + a[:shared] + b)
    end = data.draw(st.integers(at, len(ids)))
    expected = 0
    while expected < min(len(a), end - at) and a[expected] == ids[at + expected]:
        expected += 1
    assert common(array("q", a), ids, at, end) == expected


def test_match_splits_so_that_the_node_ends_at_the_match(tree):
    put(tree, [1, 2, 3, 4, 5], slot=10)
    node, length = tree.match("ns", [1, 2, 3, 9])
    assert (node.end, length) == (3, 3)
    assert tree.spans(node) == [Extent(10, 3)]
    check_tree(tree)


def test_split_keeps_handles_to_the_deep_node(tree):
    deep = put(tree, [1, 2, 3, 4, 5], slot=0).node
    tree.lease(deep)
    prefix = tree.match("ns", [1, 2]).node
    assert tree.path(deep) == [prefix, deep]
    assert (prefix.leases, deep.leases, deep.end) == (1, 1, 5)
    assert tree.spans(deep) == [Extent(0, 5)]
    tree.unlease(deep)
    assert (prefix.leases, deep.leases, tree.leased) == (0, 0, 0)
    check_tree(tree)


def test_split_keeps_the_time_of_both_halves_and_a_match_refreshes_the_prefix(tree, clock):
    """mini-sglang#124: the prefix made by a split had no fresh time, so the hottest prefix went first."""
    deep = put(tree, [1, 2, 3, 4], slot=0).node
    clock.now += 5
    put(tree, [8, 8], slot=10)
    clock.now += 5
    prefix = tree.match("ns", [1, 2, 7]).node
    assert (prefix.last_use, deep.last_use) == (clock.now, clock.now - 10)
    tree.evict(2)
    assert deep.parent is None
    tree.evict(2)
    assert tree.peek("ns", [8, 8], limit=2) == 0
    assert tree.peek("ns", [1, 2], limit=2) == 2


def test_a_leased_node_survives_eviction_of_everything(tree):
    """mini-sglang#52: the lock walk left out the node itself."""
    held = put(tree, [1, 2, 3], slot=0).node
    tree.lease(held)
    put(tree, [1, 2, 3, 4], slot=0)
    put(tree, [1, 9], slot=20)
    assert total(tree.evict(10**6)) == 2
    assert tree.spans(held) == [Extent(0, 3)]
    assert tree.evictable == 0
    check_tree(tree)


def test_insert_reports_what_another_request_published_first(tree):
    root = tree.match("ns", []).node
    tree.lease(root)
    put(tree, [1, 2, 3], slot=0)
    node, existing = tree.insert([1, 2, 3, 4], [Extent(50, 4)], below=root)
    assert existing == 3
    assert tree.spans(node) == [Extent(0, 3), Extent(53, 1)]


def test_insert_of_a_prefix_splits(tree):
    put(tree, [1, 2, 3, 4], slot=0)
    root = tree.roots["ns"]
    node, existing = tree.insert([1, 2], [Extent(50, 2)], below=root)
    assert (node.end, existing) == (2, 2)
    check_tree(tree)


def test_a_conversation_that_nobody_shares_stays_one_node(tree):
    node = put(tree, [1, 2], slot=0).node
    tree.lease(node)
    assert tree.insert([1, 2, 3], [Extent(2, 1)], below=node).node is node
    assert (node.end, node.extents, tree.nodes, tree.leased) == (3, [Extent(0, 3)], 1, 3)
    check_tree(tree)


def test_a_node_that_another_lease_holds_is_not_extended(tree):
    node = put(tree, [1, 2], slot=0).node
    tree.lease(node)
    tree.lease(node)
    deeper = tree.insert([1, 2, 3], [Extent(2, 1)], below=node).node
    assert deeper is not node
    assert (node.end, deeper.end) == (2, 3)
    check_tree(tree)


@pytest.mark.parametrize("page", [4, 16])
def test_pages_are_never_split(page, clock):
    """sglang#10637, #5221: with pages, empty keys and splits inside a page."""
    tree = RadixTree(page, least_likely_first, clock)
    ids = list(range(3 * page))
    root = tree.match("ns", ids).node
    tree.insert(ids, [Extent(0, 3 * page)], below=root)
    other = ids[: 2 * page - 1] + [99] * page
    assert tree.match("ns", other).length == page
    assert tree.match("ns", ids[: page - 1]).length == 0
    assert tree.insert(ids[: page - 1], [], below=root).node is root
    check_tree(tree)


def test_namespaces_do_not_meet_and_vanish_when_empty(tree):
    put(tree, [1, 2], slot=0, namespace=("model", "tenant a"))
    assert tree.peek(("model", "tenant b"), [1, 2], limit=2) == 0
    assert tree.retain(("model", "tenant b"), [1, 2], seconds=1e9) == 0
    assert list(tree.roots) == [("model", "tenant a")]
    tree.evict(2)
    assert tree.roots == {}


def test_an_empty_namespace_stays_while_leased(tree):
    root = tree.match("ns", []).node
    tree.lease(root)
    put(tree, [1], slot=0)
    tree.evict(1)
    assert tree.roots == {"ns": root}
    tree.unlease(root)
    assert tree.roots == {}


def test_eviction_takes_the_end_of_the_oldest_leaf(tree, clock):
    put(tree, list(range(10)), slot=0)
    clock.now += 1
    put(tree, [50, 51], slot=20)
    assert tree.evict(3) == [Extent(7, 3)]
    assert tree.peek("ns", list(range(10)), limit=10) == 7
    check_tree(tree)


def test_retention_sorts_last_and_expires(tree, clock):
    put(tree, [1, 2], slot=0)
    put(tree, [5, 6], slot=10)
    tree.retain("ns", [1, 2], seconds=60)
    clock.now += 1
    tree.match("ns", [5, 6])
    assert tree.evict(1) == [Extent(11, 1)]
    clock.now += 60
    tree.match("ns", [5])
    assert tree.evict(1) == [Extent(1, 1)]


def test_release_leaves_what_another_branch_retains(tree, clock):
    put(tree, [1, 2, 3], slot=0)
    put(tree, [1, 2, 4], slot=10)
    for branch in ([1, 2, 3], [1, 2, 4]):
        tree.retain("ns", branch, seconds=60)
    tree.release("ns", [1, 2, 3])
    trunk = tree.match("ns", [1, 2]).node
    assert {node.retain_until > clock.now for node in trunk.children.values()} == {True, False}
    assert trunk.retain_until > clock.now


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.booleans()), max_size=12),
)
def test_each_victim_is_the_first_in_order_of_all_unleased_leaves(inserted):
    now = 0.0

    def order(node):
        return (node.retain_until > now, node.retain_until if node.retain_until > now else node.last_use)

    tree = RadixTree(1, least_likely_first, lambda: now)
    for slot, (ids, retained) in enumerate(inserted):
        now += 1
        put(tree, ids, slot=slot * 10)
        if retained:
            tree.retain("ns", ids, seconds=6)
    while tree.cached:
        leaves = [node for node in all_nodes(tree) if not node.children]
        victim = min(leaves, key=lambda node: (order(node), node.id))
        last = victim.extents[-1].stop - 1
        assert tree.evict(1) == [Extent(last, 1)]
        check_tree(tree)
