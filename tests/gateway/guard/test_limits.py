"""The sliding window: never far from the true one, the same in Redis and here."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.redis_store import RedisStore
from gateway.guard.limits import WINDOW_MS, Limiter, LocalWindows, Verdict

TAKES = st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 40), st.booleans()), max_size=30)


@given(TAKES, st.integers(1, 100))
def test_no_two_fixed_windows_hold_more_than_twice_the_limit(takes, limit):
    windows, let_in = LocalWindows(), []
    now = 0
    for step, amount, _ in takes:
        now += step
        verdict = windows.take("k", now, limit, amount)
        if verdict.allowed:
            let_in.append((now, amount))
        else:
            assert 0 < verdict.wait_ms <= WINDOW_MS
            assert verdict.used > 0
    for start in range(0, now + 1, WINDOW_MS):
        held = [amount for at, amount in let_in if start <= at < start + WINDOW_MS]
        assert sum(held[1:]) <= limit


def test_a_full_window_opens_as_time_passes():
    windows = LocalWindows()
    for _ in range(10):
        assert windows.take("k", 0, 10, 1).allowed
    refused = windows.take("k", 1000, 10, 1)
    assert refused == Verdict(False, 10, WINDOW_MS - 1000)
    assert not windows.take("k", WINDOW_MS, 10, 1).allowed
    half = windows.take("k", WINDOW_MS * 3 // 2, 10, 1)
    assert half.allowed
    assert half.used == 5
    assert windows.take("other", 1000, 10, 1).allowed


def test_what_an_engine_counted_is_added_whatever_the_limit():
    windows = LocalWindows()
    windows.take("k", 0, 100, 50)
    windows.take("k", 0, 100, 500, force=True)
    assert windows.take("k", 1, 100, 1) == Verdict(False, 550, WINDOW_MS - 1)
    windows.take("k", 2, 100, -500, force=True)
    assert windows.take("k", 3, 100, 1).allowed


@pytest.mark.anyio
async def test_redis_counts_as_this_module_does(redis_url):
    store, windows = RedisStore(redis_url), LocalWindows()
    try:
        now = 1_000_000
        for step, amount, force in [(0, 7, False), (10, 5, False), (20_000, 3, True), (45_000, 9, False)] * 6:
            now += step
            assert await store.take("{t}:k", now, 12, amount, force) == windows.take("{t}:k", now, 12, amount, force)
    finally:
        await store.close()


@pytest.mark.anyio
async def test_without_the_shared_store_a_gateway_counts_alone():
    class Away:
        async def take(self, *_):
            await asyncio.sleep(0)

    limiter = Limiter(Away())
    assert (await limiter.take("k", 0, 1, 1)).allowed
    assert not (await limiter.take("k", 1, 1, 1)).allowed
