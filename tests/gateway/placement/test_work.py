from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.placement.work import Work


def test_the_time_between_first_bytes_is_the_time_that_each_took():
    work = Work()
    work.begin("one", 1000, now=10.0)
    work.begin("two", 500, now=10.5)
    assert (work.tokens, work.head_tokens, work.head_s(11.0)) == (1500, 1000, 1.0)
    assert work.end("one", now=12.0) == 2.0
    assert (work.tokens, work.head_tokens, work.head_s(12.5)) == (500, 500, 0.5)
    assert work.end("two", now=13.0) == 1.0
    assert work.end("two", now=14.0) is None
    assert (work.tokens, work.head_tokens, work.head_s(99.0)) == (0, 0, 0.0)
    work.begin("three", 10, now=100.0)
    assert work.end("three", now=101.0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000), st.floats(0, 3)), max_size=40))
def test_times_add_up_to_the_time_in_which_there_was_work(steps):
    """Each step begins a request or, if that one waits, ends it."""
    work, now, busy, took, waiting = Work(), 0.0, 0.0, 0.0, {}
    for request, tokens, later in steps:
        busy += later if waiting else 0
        now += later
        if request in waiting:
            del waiting[request]
            took += work.end(request, now)
        else:
            waiting[request] = tokens
            work.begin(request, tokens, now)
        assert work.tokens == sum(waiting.values())
    busy -= work.head_s(now)
    assert abs(took - busy) < 1e-6
