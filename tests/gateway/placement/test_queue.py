"""The queue's order as a pure structure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.placement.queue import Full, Priority, Queue
from tests.examples import examples

INTERACTIVE, BATCH = Priority.INTERACTIVE, Priority.BATCH


def called(queue, has_room=lambda group: True):
    names = []
    while ticket := queue.call(has_room):
        names.append(ticket.value)
    return names


def test_interactive_first_then_first_come():
    queue = Queue(10)
    for name, priority in [("b1", BATCH), ("i1", INTERACTIVE), ("b2", BATCH), ("i2", INTERACTIVE)]:
        queue.join("m", priority, name)
    assert called(queue) == ["i1", "i2", "b1", "b2"]


def test_a_group_without_room_holds_up_only_its_like():
    queue = Queue(10)
    for name, group in [("m1", "m"), ("n1", "n"), ("m2", "m"), ("n2", "n")]:
        queue.join(group, INTERACTIVE, name)
    assert called(queue, lambda group: group == "n") == ["n1", "n2"]
    assert called(queue) == ["m1", "m2"]


def test_order_of_arrival_holds_between_groups():
    queue = Queue(10)
    for name, group in [("a", "m"), ("b", "n"), ("c", "m")]:
        queue.join(group, INTERACTIVE, name)
    assert called(queue) == ["a", "b", "c"]


def test_the_bound_counts_all_priorities():
    queue = Queue(2)
    queue.join("m", BATCH, "a")
    ticket = queue.join("n", INTERACTIVE, "b")
    with pytest.raises(Full):
        queue.join("m", INTERACTIVE, "c")
    assert queue.leave(ticket)
    assert not queue.leave(ticket)
    queue.join("m", INTERACTIVE, "c")
    assert (len(queue), queue.waiting(BATCH), queue.waiting(INTERACTIVE)) == (2, 1, 1)


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "call"]), st.integers(0, 3), st.sampled_from(Priority))))
def test_each_ticket_is_called_once_or_leaves_once(steps):
    queue, waiting, gone = Queue(8), [], []
    for what, number, priority in steps:
        if what == "join" and len(queue) < queue.limit:
            waiting.append(queue.join(number, priority, None))
        elif what == "leave" and waiting:
            ticket = waiting.pop(number % len(waiting))
            assert queue.leave(ticket)
            gone.append(ticket)
        elif what == "call" and (ticket := queue.call(lambda group, open=number: group == open)):
            assert ticket.group == number
            same = [t for t in waiting if t.group == number]
            assert ticket is min(same, key=lambda t: (t.priority is BATCH, t.number))
            waiting.remove(ticket)
            gone.append(ticket)
        assert len(queue) == len(waiting)
    assert not any(queue.leave(ticket) for ticket in gone)
