"""A seat teaches the policy that gave it."""

from __future__ import annotations

import pytest

from gateway.config_pools import PoolConfig
from gateway.placement.replica import Replica, Want
from gateway.placement.seconds import SecondsPlacement
from gateway.routing.pool import ReplicaPool
from tests.gateway.placement.views import NOW_MS, REQUEST, match


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pool(clock):
    pool = ReplicaPool(PoolConfig(name="p", upstreams=("http://a",)), SecondsPlacement(2000), 10, clock)
    pool.members["http://a"] = Replica("http://a")
    pool.members["http://a"].went_up("e")
    return pool


def serve(pool, clock, seconds, *, epoch="e", cached=0, matches=()):
    seat = pool.take(Want("m"), REQUEST, matches, NOW_MS)
    clock.now += seconds
    seat.answered(200)
    clock.now += 5.0  # decoding tells nothing of prefill
    seat.counted(epoch, REQUEST.tokens, REQUEST.tokens, cached)
    seat.close()
    return seat


def test_the_rate_is_learned_from_dispatch_to_first_byte(pool, clock):
    for _ in range(100):
        serve(pool, clock, 0.1)
    assert pool.placement.rate("http://a", "e") == pytest.approx(10_000, rel=0.05)
    assert serve(pool, clock, 0.1).rate == pytest.approx(10_000, rel=0.05)
    assert pool.members["http://a"].load.work.tokens == 0


def test_what_was_not_cached_costs_trust(pool, clock):
    home = [match("http://a", tokens=900)]
    for _ in range(60):
        serve(pool, clock, 0.1, cached=300, matches=home)
    assert serve(pool, clock, 0.1, matches=home).choice.cached_tokens == pytest.approx(300, abs=20)


def test_an_engine_that_started_anew_in_between_teaches_nothing(pool, clock):
    for _ in range(100):
        serve(pool, clock, 0.1, epoch="another boot")
    assert pool.placement.rate("http://a", "e") == pytest.approx(2000)
