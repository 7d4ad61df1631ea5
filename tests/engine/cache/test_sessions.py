from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cache.sessions import TURNS, Sessions

SYSTEM = [1] * 20


def begin(sessions, ids, name="s"):
    return [(left.ids.tolist(), left.kept) for left in sessions.begin("ns", name, ids)]


def test_a_turn_that_continues_leaves_nothing():
    sessions = Sessions(1000)
    assert begin(sessions, [1, 2]) == []
    sessions.end("ns", "s", [1, 2], [3])
    assert begin(sessions, [1, 2, 3, 4]) == []


def test_an_edited_turn_leaves_its_old_prompt_and_answer():
    sessions = Sessions(1000)
    begin(sessions, [1, 2, 3])
    sessions.end("ns", "s", [1, 2, 3], [7, 8])
    assert begin(sessions, [1, 2, 5]) == [([1, 2, 3, 7, 8], 2)]
    assert begin(sessions, [1, 2, 6]) == [([1, 2, 5], 2)]


def test_an_answer_that_came_back_changed_is_left_where_it_changed():
    sessions = Sessions(1000)
    begin(sessions, [1, 2])
    sessions.end("ns", "s", [1, 2], [7, 8, 9])
    assert begin(sessions, [1, 2, 7, 9]) == [([1, 2, 7, 8, 9], 3)]


def test_a_new_answer_to_the_same_prompt_leaves_the_old_one():
    sessions = Sessions(1000)
    begin(sessions, [1, 2])
    sessions.end("ns", "s", [1, 2], [7])
    assert begin(sessions, [1, 2]) == [([1, 2, 7], 2)]
    assert begin(sessions, [1, 2]) == []


def test_nothing_in_common_is_another_conversation():
    sessions = Sessions(1000)
    begin(sessions, [1, 2])
    assert begin(sessions, [5, 6]) == []


def test_conversations_under_one_name_leave_each_other_alone_once_it_shows():
    """Clients give one session name to all their sub-agents; only the first guess may be wrong."""
    sessions = Sessions(10_000)
    agents = {agent: [*SYSTEM, *[agent] * 30] for agent in range(10, 16)}
    first = [begin(sessions, ids) for ids in agents.values()]
    assert any(first)
    for turn in range(5):
        for agent, ids in agents.items():
            left = begin(sessions, ids := [*ids, 100 + turn])
            agents[agent] = ids
            assert left == []


def test_an_edit_in_a_branching_session_still_counts():
    sessions = Sessions(10_000)
    one, two = [*SYSTEM, *[10] * 30], [*SYSTEM, *[11] * 30]
    for ids in (one, two, [*one, 5], [*two, 5]):
        begin(sessions, ids)
    assert begin(sessions, [*one, 6]) == [([*one, 5], len(one))]
    assert begin(sessions, [*SYSTEM, 12]) == []


def test_an_end_without_its_turn_is_ignored():
    sessions = Sessions(1000)
    sessions.end("ns", "s", [1], [2])
    begin(sessions, [1])
    sessions.end("ns", "s", [9], [2])
    assert sessions.tokens == 1


turns = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 1), min_size=1, max_size=12), st.booleans()), max_size=60
)


@given(turns, st.sampled_from([0, 5, 40, 10_000]))
def test_memory_is_bounded_and_counted(steps, limit):
    sessions = Sessions(limit)
    for name, ids, answered in steps:
        for left in sessions.begin("ns", name, ids):
            assert left.kept < len(left.ids)
            assert left.ids.tolist()[: left.kept] == ids[: left.kept]
            assert left.ids.tolist()[left.kept : left.kept + 1] != ids[left.kept : left.kept + 1]
        if answered:
            sessions.end("ns", name, ids, [5])
        assert sessions.tokens == sum(session.tokens for session in sessions._sessions.values()) <= limit
        assert all(len(session.turns) <= TURNS for session in sessions._sessions.values())
