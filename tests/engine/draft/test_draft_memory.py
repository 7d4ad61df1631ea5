from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.config import DraftConfig
from engine.draft.memory import DraftMemory

SMALL = DraftConfig(min_match=2, max_match=5, max_candidates=10_000, memory_tokens=40)
texts = st.lists(st.integers(0, 3), max_size=14)
calls = st.lists(
    st.tuples(st.sampled_from(["remember", "match"]), st.sampled_from(["a", "b", "c"]), texts), max_size=40
)


def outputs(memory, namespace):
    stored = memory._namespaces.get(namespace)
    return [stored._read(output).tolist() for output in stored._outputs] if stored else []


def check(memory, config):
    """Every counter equals a recount, and nothing of what was forgotten is left in an index."""
    stored = {namespace: outputs(memory, namespace) for namespace in memory._namespaces}
    assert all(stored.values())
    assert memory.tokens == sum(len(ids) for every in stored.values() for ids in every) <= config.memory_tokens
    assert len(memory) == sum(map(len, stored.values()))
    for namespace, every in stored.items():
        text = memory._namespaces[namespace]._text
        size = config.min_match
        grams = {tuple(ids[i - size : i]) for ids in every for i in range(size, len(ids))}
        assert text.grams == len(grams)
        assert len(text.tokens) == len(text._previous) == sum(len(ids) + 1 for ids in every)
        assert len(memory._namespaces[namespace]._by_content) == len(every) == len(set(map(tuple, every)))
        assert [length for name, length in memory._ages if name == namespace] == [len(ids) for ids in every]


def best(every, tail, config):
    """The longest match in `every` output: (length, what followed)."""
    found = []
    for ids in every:
        for position in range(config.min_match, len(ids)):
            length = 0
            while length < min(position, len(tail)) and ids[position - 1 - length] == tail[-1 - length]:
                length += 1
            if length >= config.min_match:
                found.append((min(length, config.max_match), ids[position:]))
    length = max((length for length, _ in found), default=0)
    # the most recent of equals comes last
    return length, next((rest for size, rest in reversed(found) if size == length), [])


@given(calls)
def test_counters_and_matches_equal_a_recount(calls):
    memory = DraftMemory(SMALL)
    for call, namespace, ids in calls:
        if call == "remember":
            memory.remember(namespace, ids)
            check(memory, SMALL)
            continue
        length, followed = best(outputs(memory, namespace), ids, SMALL)
        match = memory.match(namespace, ids)
        assert (match.length if match else 0) == length
        assert memory.propose(namespace, ids, 6) == followed[:6]
        check(memory, SMALL)


def test_another_request_drafts_from_an_output():
    memory = DraftMemory()
    memory.remember("tenant", [1, 2, 3, 4, 5, 6])
    assert memory.propose("tenant", [9, 1, 2, 3], 2) == [4, 5]
    assert memory.propose("tenant", [9, 1, 2, 3], 9) == [4, 5, 6]
    assert memory.propose("tenant", [1, 2, 3], 0) == []
    assert memory.propose("tenant", [2, 3], 9) == []


def test_a_draft_does_not_run_into_the_next_output():
    memory = DraftMemory()
    memory.remember("tenant", [1, 2, 3, 4])
    memory.remember("tenant", [5, 6, 7, 8])
    assert memory.propose("tenant", [1, 2, 3], 9) == [4]
    assert memory.propose("tenant", [2, 3, 4], 9) == []
    assert memory.propose("tenant", [3, 4, 5], 9) == []


def test_tenants_never_mix():
    memory = DraftMemory()
    memory.remember("one", [1, 2, 3, 4, 5, 6])
    assert memory.propose("two", [1, 2, 3], 9) == []
    memory.remember("two", [1, 2, 3, 7, 7, 7])
    assert memory.propose("one", [1, 2, 3], 9) == [4, 5, 6]
    assert memory.propose("two", [1, 2, 3], 9) == [7, 7, 7]


def fill(memory, namespace, start, count):
    """Outputs of ten tokens that share nothing."""
    for first in range(start, start + 10 * count, 10):
        memory.remember(namespace, range(first, first + 10))


def test_the_oldest_output_leaves_first_whosever_it_is():
    memory = DraftMemory(DraftConfig(memory_tokens=40))
    fill(memory, "one", 0, 2)
    fill(memory, "two", 100, 2)
    fill(memory, "two", 200, 1)
    assert outputs(memory, "one") == [list(range(10, 20))]
    fill(memory, "two", 300, 1)
    assert "one" not in memory._namespaces
    assert memory.tokens == 40


def test_a_chain_ends_where_its_output_was_forgotten():
    memory = DraftMemory(DraftConfig(memory_tokens=40))
    memory.remember("tenant", [1, 2, 3, *range(100, 133)])
    memory.remember("tenant", [1, 2, 3, 4, 5])
    assert outputs(memory, "tenant") == [[1, 2, 3, 4, 5]]
    assert memory.propose("tenant", [9, 9, 1, 2, 3], 9) == [4, 5]


def test_an_output_that_is_drafted_from_stays():
    memory = DraftMemory(DraftConfig(memory_tokens=40))
    fill(memory, "tenant", 0, 4)
    for start in range(100, 200, 10):
        assert memory.propose("tenant", [0, 1, 2], 3) == [3, 4, 5]
        fill(memory, "tenant", start, 1)
    fill(memory, "tenant", 200, 8)
    assert memory.propose("tenant", [0, 1, 2], 3) == []


def test_an_output_generated_again_is_stored_once():
    memory = DraftMemory(DraftConfig(memory_tokens=40))
    for _ in range(3):
        fill(memory, "tenant", 0, 1)
    assert (len(memory), memory.tokens) == (1, 10)
    fill(memory, "tenant", 100, 4)
    assert list(range(10)) in outputs(memory, "tenant")


def test_of_an_output_larger_than_the_memory_the_end_is_kept():
    memory = DraftMemory(DraftConfig(memory_tokens=8))
    memory.remember("tenant", list(range(20)))
    assert outputs(memory, "tenant") == [list(range(12, 20))]


@pytest.mark.parametrize("capacity", [0, 3])
def test_a_memory_without_room_stays_empty(capacity):
    memory = DraftMemory(DraftConfig(memory_tokens=capacity))
    memory.remember("tenant", [1, 2, 3, 4, 5])
    assert (len(memory), memory.tokens, memory.propose("tenant", [1, 2, 3], 4)) == (0, 0, [])
