"""The plan covers every visible (query, slot) pair exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.attention.plan import Segment, plan_attention


@st.composite
def segments(draw):
    """Requests over one slot axis: shared runs are shared as a whole or in part, fresh slots are private."""
    shared = draw(st.lists(st.integers(1, 40), min_size=0, max_size=3))
    starts = [sum(shared[:i]) for i in range(len(shared))]
    free = sum(shared)
    found = []
    for _ in range(draw(st.integers(1, 5))):
        depth = draw(st.integers(0, len(shared)))
        context = [(starts[i], shared[i]) for i in range(depth)]
        if depth and draw(st.booleans()):
            context[-1] = (context[-1][0], draw(st.integers(1, context[-1][1])))
        private = draw(st.integers(0, 200))
        if private:
            context.append((free, private))
            free += private
        count = draw(st.integers(1, 5))
        found.append(Segment(context, [(free, count)], count))
        free += count
    return found


@given(segments())
def test_covers_each_pair_once(found):
    plan = plan_attention(found)
    expected: Counter = Counter()
    row = 0
    for segment in found:
        context = [slot for start, length in segment.context for slot in range(start, start + length)]
        own = [slot for start, length in segment.slots for slot in range(start, start + length)]
        for i in range(segment.count):
            expected.update((row + i, slot) for slot in context + own[: i + 1])
        row += segment.count
    actual: Counter = Counter()
    for span in plan.spans:
        seen = [slot for start, length in span.runs for slot in range(start, start + length)]
        for i, r in enumerate(span.rows):
            visible = len(seen) if span.causal is None else span.causal + i + 1
            assert visible <= len(seen)
            actual.update((r, slot) for slot in seen[:visible])
    assert actual == expected
    own = [slot for start, length in plan.runs for slot in range(start, start + length)]
    assert own == [slot for s in found for start, n in s.slots for slot in range(start, start + n)]
    assert plan.tokens == len(own)


def test_runs_of_the_same_requests_are_one_span():
    context = [(0, 2000), (3000, 64), (4000, 200)]
    plan = plan_attention([Segment(context, [(5000, 3)], 3), Segment(context, [(6000, 2)], 2)])
    shared = [span for span in plan.spans if span.causal is None]
    assert [(span.rows, span.runs) for span in shared] == [((0, 1, 2, 3, 4), tuple(context))]


def test_a_prefix_of_sixteen_is_one_span():
    found = [Segment([(0, 100), (200 + 10 * i, 5)], [(205 + 10 * i, 1)], 1) for i in range(16)]
    plan = plan_attention(found)
    shared = [span for span in plan.spans if span.causal is None]
    assert [(span.runs, len(span.rows)) for span in shared] == [(((0, 100),), 16)]
    assert sorted(span.length for span in plan.spans) == [6] * 16 + [100]
