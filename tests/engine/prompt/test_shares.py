"""Shares: whatever is added and taken, the largest holder is the one that a count would find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.prompt.shares import Shares


@given(steps=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-20, 20)), max_size=300))
def test_the_largest_is_what_a_count_finds(steps):
    shares, counted = Shares(), dict.fromkeys("abcde", 0)
    for owner, amount in steps:
        amount = max(amount, -counted[owner])
        counted[owner] += amount
        shares.add(owner, amount)
        assert shares.total == sum(counted.values())
        assert len(shares) == sum(amount > 0 for amount in counted.values())
        if shares.total:
            assert shares.largest() == min(counted, key=lambda name: (-counted[name], name))
    assert all(shares.of(owner) == amount for owner, amount in counted.items())


def test_it_remembers_no_more_than_the_holders_need():
    shares = Shares()
    for _ in range(10_000):
        shares.add("a", 1)
    assert len(shares._heap) < 100
    shares.add("a", -10_000)
    with pytest.raises(LookupError):
        shares.largest()
